"""How shaping leaves: weights that only ever fall, from 1 to 0."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from rlvr_envs.rewards.episode import Episode
from rlvr_envs.rewards.estimates import Tally, mean_pass_at_k


@dataclass(frozen=True, slots=True)
class Anneal:
    """A weight that starts to fall once a reading has passed a threshold.

    Attributes:
        threshold: The reading must be above it; in [0, 1).
        patience: For how many readings in a row, at least 1.
        span: Updates over which the weight falls to 0 in equal steps; 0 switches it
            off at once (hard), anything above is smooth.
        streak: Readings above the threshold in a row so far.
        since: Updates since it began to fall; -1 while it has not.

    Raises:
        ValueError: If a number is out of range.

    Source:
        Project specification, E2 and E5.
    """

    threshold: float
    patience: int = 1
    span: int = 0
    streak: int = 0
    since: int = -1

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold < 1.0:
            raise ValueError(f"threshold lies in [0, 1), not {self.threshold!r}.")
        if self.patience < 1 or self.span < 0:
            raise ValueError("patience is at least 1, span at least 0.")

    @property
    def weight(self) -> float:
        """The factor for the next update, in [0, 1]."""
        if self.since < 0:
            return 1.0
        return max(0.0, 1.0 - (self.since + 1) / (self.span + 1))

    def after(self, reading: float | None) -> Anneal:
        """Return the controller as it stands after one update.

        Once begun, the fall goes on whatever is read: shaping that came back would
        move the goal under a policy that had reached it.

        Args:
            reading: In [0, 1]; ``None`` if nothing could be measured, which neither
                adds to the streak nor breaks it.

        Raises:
            ValueError: If the reading is out of range.
        """
        if reading is not None and not 0.0 <= reading <= 1.0:
            raise ValueError(f"A reading lies in [0, 1], not {reading!r}.")
        if self.since >= 0:
            return replace(self, since=self.since + 1)
        if reading is None:
            return self
        streak = self.streak + 1 if reading > self.threshold else 0
        begun = streak >= self.patience
        return replace(self, streak=streak, since=0 if begun else -1)


def potential_anneal(*, span: int = 0) -> Anneal:
    """Return the controller of potential shaping: feed it pass@16 (`pass_at_16`).

    Source:
        Project specification, E2: it leaves once sparse pass@16 passes 15 %.
    """
    return Anneal(threshold=0.15, span=span)


def path_anneal(*, span: int = 0) -> Anneal:
    """Return the controller of the path channel: feed it `compliance`.

    Source:
        Project specification, E5: it leaves once compliance saturates. What counts
        as saturated (above 0.95 three times in a row) is our own.
    """
    return Anneal(threshold=0.95, patience=3, span=span)


@dataclass(frozen=True, slots=True)
class Timetable:
    """A weight by the share of training that is done.

    Attributes:
        start: Where it begins to fall, in [0, 1].
        end: Where it reaches 0; equal to ``start`` for a hard switch.

    Raises:
        ValueError: Unless 0 <= start <= end <= 1.

    Source:
        Project specification, E5: the full recipe switches off after two thirds.
    """

    start: float = 2.0 / 3.0
    end: float = 2.0 / 3.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.start <= self.end <= 1.0:
            raise ValueError("A timetable has 0 <= start <= end <= 1.")

    def weight(self, progress: float) -> float:
        """Return the factor at a share of training, in [0, 1]."""
        if not (math.isfinite(progress) and 0.0 <= progress <= 1.0):
            raise ValueError(f"progress lies in [0, 1], not {progress!r}.")
        if progress < self.start:
            return 1.0
        if progress >= self.end:
            return 0.0
        return (self.end - progress) / (self.end - self.start)


def pass_at_16(tallies: Iterable[Tally]) -> float | None:
    """Return the reading for potential shaping: unbiased, unshaped, over tasks.

    Args:
        tallies: One for each task; with groups smaller than 16, add up the tallies
            of as many recent groups as it takes.

    Returns:
        In [0, 1]; ``None`` if no task was tried 16 times.
    """
    return mean_pass_at_k(tallies, 16)


def compliance(episodes: Iterable[Episode], violations: Iterable[int]) -> float | None:
    """Return the reading for the path channel: the share of clean episodes.

    Args:
        episodes: Scripted and void ones are left out.
        violations: How many each had, in the same order.

    Returns:
        In [0, 1]; ``None`` if no episode counts.
    """
    clean = [
        count == 0
        for episode, count in zip(episodes, violations, strict=True)
        if episode.scorable and not episode.scripted
    ]
    return sum(clean) / len(clean) if clean else None
