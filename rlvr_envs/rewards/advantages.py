"""From a group's rewards to the advantage of each episode, turn and token.

Everywhere: an unscorable episode enters no mean, no deviation and no token count,
and its own advantage is 0. A scripted demonstration can be kept out of the baseline
that it is compared with. Arrays are float64 and never NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlvr_envs.rewards.episode import Episode

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

EPSILON = 1e-8
"""Added to a deviation; a deviation below it counts as none."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Episodes that started from one snapshot.

    Attributes:
        rewards: The outcome channel, shape (G,).
        passed: Shape (G,); whether the verdict was a pass.
        scorable: Shape (G,); false for a void episode.
        baseline: Shape (G,); who the others are compared with: scorable, and not
            a demonstration that is left out.

    Raises:
        ValueError: If shapes differ or a reward is not finite.
    """

    rewards: Floats
    passed: Bools
    scorable: Bools
    baseline: Bools

    def __post_init__(self) -> None:
        arrays = (self.rewards, self.passed, self.scorable, self.baseline)
        shapes = {array.shape for array in arrays}
        if len(shapes) != 1 or self.rewards.ndim != 1:
            raise ValueError(f"A group's arrays are of one shape (G,), not {shapes}.")
        if not np.isfinite(self.rewards).all():
            raise ValueError("A reward is not finite.")

    @classmethod
    def of(
        cls,
        rewards: ArrayLike,
        *,
        passed: ArrayLike | None = None,
        scorable: ArrayLike | None = None,
        scripted: ArrayLike | None = None,
    ) -> Group:
        """Build a group from plain numbers.

        Args:
            rewards: Shape (G,).
            passed: Shape (G,); who earned more than 0, if left out.
            scorable: Shape (G,); all if left out.
            scripted: Shape (G,); those to keep out of the baseline, none if left out.
        """
        values = np.array(rewards, dtype=np.float64)
        won = np.array(values > 0.0 if passed is None else passed, dtype=np.bool_)
        counts = _flags(scorable, values.shape, default=True)
        left_out = _flags(scripted, values.shape, default=False)
        if counts.shape != left_out.shape:
            raise ValueError("scorable and scripted have the shape of the rewards.")
        return cls(values, won, counts, counts & ~left_out)

    @classmethod
    def from_episodes(
        cls, episodes: Sequence[Episode], *, scripted_in_baseline: bool = True
    ) -> Group:
        """Build a group from episodes; their outcome channel is the reward."""
        return cls.of(
            [episode.reward for episode in episodes],
            passed=[episode.passed for episode in episodes],
            scorable=[episode.scorable for episode in episodes],
            scripted=[
                episode.scripted and not scripted_in_baseline for episode in episodes
            ],
        )

    def with_rewards(self, rewards: ArrayLike) -> Group:
        """Return the same group with other rewards, such as another channel's."""
        values = np.array(rewards, dtype=np.float64)
        return Group(values, self.passed, self.scorable, self.baseline)


def dr_grpo(group: Group) -> Floats:
    """Return rewards less the group's mean.

    Returns:
        Shape (G,); they sum to 0 over the baseline.

    Source:
        Liu et al., "Understanding R1-Zero-like training", arXiv:2503.20783 (Dr. GRPO).
    """
    centred = group.rewards - _mean(group)
    return np.where(group.scorable, centred, 0.0)


def grpo(group: Group, *, ddof: int = 0) -> Floats:
    """Return rewards less the group's mean, in units of its standard deviation.

    Args:
        group: Of any size.
        ddof: 0 for the deviation of the group, 1 for the sample estimate that some
            trainers take.

    Returns:
        Shape (G,); all 0 for a group without variance.

    Source:
        Shao et al., "DeepSeekMath", arXiv:2402.03300, outcome supervision (GRPO).
    """
    deviation = _deviation(group.rewards[group.baseline], ddof=ddof)
    if deviation < EPSILON:
        return np.zeros_like(group.rewards)
    return dr_grpo(group) / (deviation + EPSILON)


def gdpo(
    group: Group, channels: Sequence[ArrayLike], *, weights: ArrayLike | None = None
) -> Floats:
    """Normalise each channel in the group by itself, then add them up.

    A sum that is normalised afterwards maps different mixes of channels to one
    advantage; this keeps them apart. Over the batch, follow it with `batch_normal`.

    Args:
        group: Says who counts; its own rewards are not used.
        channels: K arrays of shape (G,).
        weights: Shape (K,); 1 each if left out.

    Returns:
        Shape (G,).

    Raises:
        ValueError: If a channel's shape is not the group's.

    Source:
        Liu et al., "GDPO: Group reward-decoupled normalization policy optimization
        for multi-reward RL optimization", arXiv:2601.05242.
    """
    normal = np.array([grpo(group.with_rewards(channel)) for channel in channels])
    factors = np.ones(len(channels)) if weights is None else np.asarray(weights)
    return np.asarray(factors @ normal, dtype=np.float64)


def batch_normal(advantages: ArrayLike, *, scorable: ArrayLike | None = None) -> Floats:
    """Bring a batch to mean 0 and deviation 1, so that its size does not depend on K.

    Args:
        advantages: Shape (B,), of several groups.
        scorable: Shape (B,); all if left out.

    Returns:
        Shape (B,); all 0 for a batch without variance.

    Source:
        As `gdpo`: its batch-wise step.
    """
    return grpo(Group.of(advantages, scorable=scorable))


@dataclass(frozen=True, slots=True, eq=False)
class TwoChannels:
    """Per-token advantages of a batch, one array of shape (turns,) per episode.

    All action tokens of a turn share its value: repeat by token count with `tokens`.
    """

    outcome: tuple[Floats, ...]
    path: tuple[Floats, ...]

    @property
    def total(self) -> tuple[Floats, ...]:
        """Both channels added."""
        return tuple(
            one + other for one, other in zip(self.outcome, self.path, strict=True)
        )


def two_channels(
    advantages: ArrayLike,
    path: Sequence[ArrayLike],
    tokens: Sequence[ArrayLike],
    *,
    scorable: ArrayLike | None = None,
) -> TwoChannels:
    """Normalise the outcome and the path each by the tokens that carry it, and add.

    A token's value is ``A_outcome / N_outcome + A_path / N_path``. N_outcome counts
    all action tokens, N_path those of turns with a nonzero path term; both over the
    whole batch given, void episodes left out. A sparse penalty is not diluted by
    the many tokens that did nothing wrong.

    Args:
        advantages: Shape (B,), of the outcome: usually `dr_grpo` by group.
        path: B arrays of shape (turns,): the path terms, not centred.
        tokens: B arrays of shape (turns,): action tokens of each turn.
        scorable: Shape (B,); all if left out.

    Raises:
        ValueError: If the shapes do not fit.

    Source:
        Li and Shi, "RLVP: Penalize the Path, Reward the Outcome", arXiv:2607.07435;
        the formula as in the project specification, E5.
    """
    values = np.asarray(advantages, dtype=np.float64)
    counts = _flags(scorable, values.shape, default=True)
    terms = [np.asarray(item, dtype=np.float64) for item in path]
    sizes = [np.asarray(item, dtype=np.int64) for item in tokens]
    _check_turns(values, counts, terms, sizes)
    live = [size * kept for size, kept in zip(sizes, counts, strict=True)]
    all_tokens = sum(int(size.sum()) for size in live)
    marked = sum(
        int(size[term != 0.0].sum()) for size, term in zip(live, terms, strict=True)
    )
    keeps = values * counts / max(all_tokens, 1)
    return TwoChannels(
        outcome=tuple(
            np.full(size.shape, keep) for size, keep in zip(sizes, keeps, strict=True)
        ),
        path=tuple(
            term * kept / max(marked, 1)
            for term, kept in zip(terms, counts, strict=True)
        ),
    )


def river(
    advantages: ArrayLike,
    penalties: Sequence[ArrayLike],
    *,
    scorable: ArrayLike | None = None,
) -> tuple[Floats, ...]:
    """Add repetition penalties to normalised advantages, turn by turn.

    Args:
        advantages: Shape (B,), normalised within their groups.
        penalties: B arrays of shape (turns,), each value 0 or below.
        scorable: Shape (B,); all if left out.

    Returns:
        B arrays of shape (turns,).

    Raises:
        ValueError: If the shapes do not fit.

    Source:
        Yao et al. (RIVER), arXiv:2608.22631; as in the project specification, E4.
    """
    values = np.asarray(advantages, dtype=np.float64)
    counts = _flags(scorable, values.shape, default=True)
    terms = [np.asarray(item, dtype=np.float64) for item in penalties]
    _check_turns(values, counts, terms, terms)
    return tuple(
        (value + term) * kept
        for value, term, kept in zip(values, terms, counts, strict=True)
    )


def tokens(turn_values: ArrayLike, turn_tokens: ArrayLike) -> Floats:
    """Repeat each turn's value over its action tokens; shape (sum of tokens,)."""
    counts = np.asarray(turn_tokens, dtype=np.int64)
    return np.repeat(np.asarray(turn_values, dtype=np.float64), counts)


def _flags(given: ArrayLike | None, shape: tuple[int, ...], *, default: bool) -> Bools:
    if given is None:
        return np.full(shape, default)
    return np.array(given, dtype=np.bool_)


def _mean(group: Group) -> float:
    return float(group.rewards[group.baseline].mean()) if group.baseline.any() else 0.0


def _deviation(values: Floats, *, ddof: int) -> float:
    return float(values.std(ddof=ddof)) if len(values) > ddof else 0.0


def _check_turns(
    values: Floats,
    counts: Bools,
    terms: Sequence[Floats],
    sizes: Sequence[NDArray[np.int64]] | Sequence[Floats],
) -> None:
    if not len(values) == len(counts) == len(terms) == len(sizes):
        raise ValueError("Advantages, turn values and flags count one per episode.")
    if any(term.shape != size.shape for term, size in zip(terms, sizes, strict=True)):
        raise ValueError("Each turn needs one path term and one token count.")
