"""The outcome channel: sparse, bounded, and never lifted above by anything else."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlvr_envs.records import Check, Outcome, Status

BEST_FAILURE = 0.38
"""Highest scalar of an episode that did not pass, however it was shaped."""

WORST_PASS = 0.40
"""Lowest scalar of an episode that passed, however it was shaped."""


def sparse(checks: Sequence[Check]) -> float:
    """Return 1.0 if there are checks and all hold, else 0.0.

    Source:
        Project specification, E1.
    """
    return float(bool(checks) and all(check.passed for check in checks))


def shaped_scalar(outcome: Outcome, *shaping: float) -> float:
    """Fold the outcome and every shaping term into one number.

    For trainers that take one reward. The sum is cut at `WORST_PASS` for a passed
    episode and at `BEST_FAILURE` for any other, so that no rule, credit or potential
    can order the two the wrong way round. The verdict itself stays as it is. With
    the default bounds of all channels the cut is needed by two kinds of failure only:
    one with partial credit, and one whose budget ended at a high potential.

    Args:
        outcome: The verdict.
        shaping: Sums over the episode, one for each channel, in reward units.

    Returns:
        At least 0.40 if the episode passed, at most 0.38 if it failed or was
        tampered with, 0.0 if it is unscorable.

    Raises:
        ValueError: If a term is not finite.

    Source:
        Own rule: ARCHITECTURE.md#reward-channels.
    """
    if not all(math.isfinite(term) for term in shaping):
        raise ValueError(f"A shaping term is not finite: {shaping!r}.")
    if not outcome.scorable:
        return 0.0
    total = outcome.reward + math.fsum(shaping)
    if outcome.status is Status.PASSED:
        return max(total, WORST_PASS)
    return min(total, BEST_FAILURE)
