"""What counts as reproduced, and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rlvr_envs.rollouts.learning import findings
from rlvr_envs.rollouts.learning.findings import Figure, figures, reached, runs_of
from rlvr_envs.rollouts.learning.training import Update


def update(
    number: int, *, signal: str = "outcome", seed: int = 0, **told: Any
) -> Update:
    fixed = Update(
        signal=signal,
        seed=seed,
        update=number,
        success=0.0,
        violations=0.0,
        fulfilments=0.0,
        turns=3.0,
        handed_in=1.0,
        needed=1.0,
        dead="",
        gradient_norm=1.0,
        entropy=1.0,
        weight=0.0,
        void=0,
    )
    return replace(fixed, **told)


def rising(to_goal: int, *, length: int = 40) -> list[Update]:
    """Return a run whose mean over five reaches the goal at an update."""
    return [
        update(number, success=float(number > to_goal - 5))
        for number in range(1, length + 1)
    ]


def test_the_goal_is_reached_by_a_mean_and_not_by_luck() -> None:
    lucky = [update(number, success=float(number == 3)) for number in range(1, 9)]

    assert reached(rising(20)) == 20
    assert reached(lucky) == 9


def test_runs_are_sorted_by_signal_and_seed() -> None:
    seen = [
        update(number, signal=signal, seed=seed)
        for signal in ("outcome", "two channels")
        for seed in (0, 1, 2)
        for number in (1, 2)
    ]

    found = runs_of(seen)

    assert {name: len(runs) for name, runs in found.items()} == {
        "outcome": 3,
        "two channels": 3,
    }
    assert all(len(run) == 2 for runs in found.values() for run in runs)


def test_a_mean_comes_with_its_deviation() -> None:
    assert Figure.over([1.0, 3.0]) == Figure(2.0, 1.0)
    assert str(Figure(0.98765, 0.0123)) == "0.988 ± 0.012"


def constant(**told: Any) -> dict[str, Figure]:
    return figures([[update(number, **told) for number in range(1, 21)]])


@pytest.mark.parametrize(
    ("violations", "success", "holds"),
    [(0.3, 0.98, True), (0.5, 0.98, False), (0.0, 0.5, False)],
)
def test_fewer_violations_count_at_equal_success_alone(
    violations: float, success: float, holds: bool
) -> None:
    found = {
        "outcome": constant(violations=2.0, success=1.0),
        "two channels": constant(violations=violations, success=success),
    }

    assert findings.path_teaches(found).holds is holds


@pytest.mark.parametrize(
    ("success", "handed_in", "holds"),
    [(0.0, 0.0, True), (0.9, 0.0, False), (0.0, 1.0, False)],
)
def test_collapse_is_neither_succeeding_nor_handing_in(
    success: float, handed_in: float, holds: bool
) -> None:
    found = {
        "outcome": constant(violations=2.0, success=1.0),
        "penalty alone": constant(success=success, handed_in=handed_in),
    }

    assert findings.penalty_collapses(found).holds is holds


@pytest.mark.parametrize(("at", "holds"), [(20, True), (25, False)])
def test_faster_means_thirty_percent(at: int, holds: bool) -> None:
    slow = [update(0, gradient_norm=0.0, dead="all_fail"), *rising(30)]
    found = {
        "outcome": figures([slow]),
        "outcome and potential": figures([rising(at)]),
    }

    assert slow[0].is_dead
    assert findings.potential_reaches(found).holds is holds
    assert "dead updates 1" in findings.potential_reaches(found).detail
