"""Potential-based shaping: progress read from state, which cannot be farmed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlvr_envs.state import StateDiff


class Potential(Protocol):
    """How near a state is to the goal; each modality, or task, can bring its own."""

    def __call__(self, diff: StateDiff) -> float:
        """Return a number in [0, 1] that depends on the state alone.

        Never on how many calls were made or how well formed they were.
        """


@dataclass(frozen=True, slots=True)
class Milestone:
    """A fact about the state that stands on the way to the goal."""

    name: str
    reached: Callable[[StateDiff], bool]
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight > 0.0):
            raise ValueError(f"A milestone weighs more than 0, not {self.weight!r}.")


@dataclass(frozen=True, slots=True)
class Milestones:
    """The weighted share of milestones that hold in a state.

    Raises:
        ValueError: If there are none.
    """

    rows: tuple[Milestone, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("A potential needs at least one milestone.")

    def __call__(self, diff: StateDiff) -> float:
        """Return the share, in [0, 1]."""
        held = math.fsum(row.weight for row in self.rows if row.reached(diff))
        return min(1.0, held / math.fsum(row.weight for row in self.rows))


def changed(path: str) -> Callable[[StateDiff], bool]:
    """Return a predicate: the thing named differs from the snapshot."""
    return lambda diff: any(change.path == path for change in diff.changes)


def holds(path: str, sha256: str) -> Callable[[StateDiff], bool]:
    """Return a predicate: the file named has the content with this digest.

    Read from the fact ``sha256`` of a diff: path to hexadecimal digest. A file that
    was not changed is in no diff, so it holds nothing.
    """
    return lambda diff: diff.facts.get("sha256", {}).get(path) == sha256


def gated(potential: Potential) -> Potential:
    """Return the potential that is 0 wherever there is collateral damage.

    Whether damage was done is itself a fact of the state, so this is a potential
    still: the sum telescopes, and doing damage gives back all that progress paid.

    Source:
        Project specification, E2.
    """

    def held_back(diff: StateDiff) -> float:
        return 0.0 if diff.collateral else potential(diff)

    return held_back


def reading(potential: Potential, diff: StateDiff) -> float:
    """Read a potential.

    Raises:
        ValueError: If it is not a number in [0, 1].
    """
    value = float(potential(diff))
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"A potential lies in [0, 1], not {value!r}: rescale it.")
    return value


def step_shaping(
    before: float, after: float, *, gamma: float, terminated: bool
) -> float:
    """Return ``gamma * Phi(s') - Phi(s)`` for one step.

    Phi is 0 in a state where the task ended. Where only the budget ended, the
    world goes on without us and Phi keeps its value.

    Args:
        before: Phi before the call.
        after: Phi after it, as read; ignored if the task terminated.
        gamma: Discount, the trainer's own, in (0, 1].
        terminated: Whether the task itself ended with this step.

    Raises:
        ValueError: If gamma is out of range.

    Source:
        Ng, Harada and Russell, "Policy invariance under reward transformations",
        ICML 1999, theorem 1; the terminal value is treated in Grzes, "Reward
        shaping in episodic reinforcement learning", AAMAS 2017.
    """
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"gamma lies in (0, 1], not {gamma!r}.")
    return gamma * (0.0 if terminated else after) - before


def shaping(
    potentials: Sequence[float], *, gamma: float, terminated: bool, weight: float = 1.0
) -> NDArray[np.float64]:
    """Return the shaping terms of a whole episode.

    Their discounted sum is ``weight * (gamma**T * Phi(s_T) - Phi(s_0))``, with
    Phi(s_T) = 0 if the task terminated: the path between the ends drops out.

    Args:
        potentials: Phi of s_0 to s_T, as read.
        gamma: Discount, in (0, 1].
        terminated: Whether the last step ended the task; false if only the budget
            ended.
        weight: One for the whole episode, at least 0.

    Returns:
        Shape (T,), where T is one less than the number of potentials.

    Raises:
        ValueError: If there is no potential, or a number is out of range.
    """
    if len(potentials) == 0:
        raise ValueError("An episode has at least one state.")
    if not (math.isfinite(weight) and weight >= 0.0):
        raise ValueError(f"weight is finite and not negative, not {weight!r}.")
    steps = list(pairwise(potentials))
    last = len(steps) - 1
    terms = [
        step_shaping(
            before, after, gamma=gamma, terminated=terminated and index == last
        )
        for index, (before, after) in enumerate(steps)
    ]
    return weight * np.asarray(terms, dtype=np.float64)
