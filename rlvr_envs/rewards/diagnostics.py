"""What a trainer must see of a group before it trusts its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlvr_envs.rewards.advantages import Group

Floats = NDArray[np.float64]


class Dead(StrEnum):
    """Why a group's outcome teaches nothing."""

    NO = ""
    ALL_FAIL = "all_fail"
    ALL_PASS = "all_pass"  # noqa: S105 - a verdict, no secret
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class GroupReport:
    """Statistics of one group; void episodes are in none of them.

    Attributes:
        episodes: How many were scored.
        void: How many could not be.
        pass_rate: Share that passed; 0.0 for an empty group.
        dead: Whether the outcome has no variance, and at which end. Shaped rewards
            do not count: an all-fail group stays dead however its paths differ.
        var_outcome: Population variance of the outcome channel.
        var_path: Of the episodes' path sums.
        covariance: Of the two; negative where violating pays.
        var_potential: Of Phi at the end: reachability. Above 0, a potential can
            rank the attempts of an all-fail group.
    """

    episodes: int
    void: int
    pass_rate: float
    dead: Dead
    var_outcome: float
    var_path: float
    covariance: float
    var_potential: float

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "dead": str(self.dead)}


def group_report(
    group: Group, *, path: ArrayLike | None = None, potential: ArrayLike | None = None
) -> GroupReport:
    """Describe a group; the baseline's episodes count, demonstrations left out do not.

    Args:
        group: Its rewards are the unshaped outcomes.
        path: Shape (G,), path sums by episode; 0 each if left out.
        potential: Shape (G,), Phi at the end; 0 each if left out.

    Raises:
        ValueError: If a shape is not the group's.

    Source:
        Project specification, E6; reachability after Li and Shi (RLVP),
        arXiv:2607.07435.
    """
    outcomes, passed = group.rewards[group.baseline], group.passed[group.baseline]
    paths, ends = (
        _channel(given, group)[group.baseline] for given in (path, potential)
    )
    return GroupReport(
        episodes=len(outcomes),
        void=int((~group.scorable).sum()),
        pass_rate=float(passed.mean()) if len(passed) else 0.0,
        dead=_dead(outcomes, passed),
        var_outcome=_covariance(outcomes, outcomes),
        var_path=_covariance(paths, paths),
        covariance=_covariance(outcomes, paths),
        var_potential=_covariance(ends, ends),
    )


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Shares over groups, each in [0, 1]; groups without scored episodes left out.

    Attributes:
        groups: How many groups had a scored episode.
        dead: Share without outcome variance: all-fail or all-pass.
        reachable: Share of all-fail groups whose potential varies; 0.0 if none fail.
    """

    groups: int
    dead: float
    all_fail: float
    all_pass: float
    reachable: float


def batch_report(reports: Sequence[GroupReport]) -> BatchReport:
    """Describe a batch by its groups."""
    kept = [item for item in reports if item.dead is not Dead.EMPTY]
    failed = [item for item in kept if item.dead is Dead.ALL_FAIL]
    return BatchReport(
        groups=len(kept),
        dead=_share([item.dead is not Dead.NO for item in kept]),
        all_fail=_share([item.dead is Dead.ALL_FAIL for item in kept]),
        all_pass=_share([item.dead is Dead.ALL_PASS for item in kept]),
        reachable=_share([item.var_potential > 0.0 for item in failed]),
    )


def sign_flips(before: ArrayLike, after: ArrayLike) -> float:
    """Return the share of advantages whose sign another scoring turns round.

    An advantage that becomes or was 0 did not flip.

    Args:
        before: Advantages under one scoring, shape (G,).
        after: Under the other, same order.

    Raises:
        ValueError: If the shapes differ.

    Source:
        Project specification, E6.
    """
    one, other = np.asarray(before), np.asarray(after)
    if one.shape != other.shape:
        raise ValueError("Both scorings describe the same episodes.")
    return float((one * other < 0.0).mean()) if one.size else 0.0


def _channel(given: ArrayLike | None, group: Group) -> Floats:
    if given is None:
        return np.zeros_like(group.rewards)
    return group.with_rewards(given).rewards


def _dead(outcomes: Floats, passed: NDArray[np.bool_]) -> Dead:
    if not len(outcomes):
        return Dead.EMPTY
    if np.ptp(outcomes) > 0.0:
        return Dead.NO
    return Dead.ALL_PASS if passed.all() else Dead.ALL_FAIL


def _covariance(one: Floats, other: Floats) -> float:
    """Return the population covariance; exactly 0 where one of the two is constant."""
    if not len(one) or np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return 0.0
    return float(((one - one.mean()) * (other - other.mean())).mean())


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 0.0
