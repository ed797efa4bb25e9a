"""Success rates of a policy on a task, from the episodes that can be scored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rlvr_envs.records import Outcome, Status


@dataclass(frozen=True, slots=True)
class Tally:
    """How often a task was tried and passed; unscorable episodes are in neither.

    Raises:
        ValueError: Unless 0 <= passed <= tried.
    """

    tried: int = 0
    passed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.passed <= self.tried:
            raise ValueError(f"{self.passed} of {self.tried} episodes cannot pass.")

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.tried + other.tried, self.passed + other.passed)

    @property
    def rate(self) -> float:
        """Share that passed; 0.0 if nothing was tried."""
        return self.passed / self.tried if self.tried else 0.0


def tally(outcomes: Iterable[Outcome]) -> Tally:
    """Count a group's episodes; an `infra_error` counts as never tried.

    Source:
        Project specification, D5.
    """
    kept = [outcome for outcome in outcomes if outcome.scorable]
    passed = sum(outcome.status is Status.PASSED for outcome in kept)
    return Tally(len(kept), passed)


def pass_at_k(counted: Tally, k: int) -> float:
    """Estimate the chance that at least one of ``k`` tries passes, without bias.

    It is 1 - C(n - c, k) / C(n, k), taken as a product so that no binomial
    coefficient is ever formed.

    Args:
        counted: n tries, c passes.
        k: At least 1, at most n.

    Returns:
        In [0, 1]; exactly c / n for k = 1.

    Raises:
        ValueError: If k is out of range; pool more groups first.

    Source:
        Chen et al., "Evaluating large language models trained on code",
        arXiv:2107.03374, section 2.1, equation 1.
    """
    n, c = counted.tried, counted.passed
    if not 1 <= k <= n:
        raise ValueError(
            f"pass@{k} needs at least {k} scorable episodes and k of at least 1, "
            f"not {n}: add up the tallies of more groups."
        )
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def mean_pass_at_k(tallies: Iterable[Tally], k: int) -> float | None:
    """Average pass@k over tasks; each counts once.

    Args:
        tallies: One for each task; tasks tried fewer than ``k`` times are left out.
        k: At least 1.

    Returns:
        In [0, 1]; ``None`` if no task was tried often enough.
    """
    estimates = [pass_at_k(item, k) for item in tallies if item.tried >= k]
    return float(np.mean(estimates)) if estimates else None
