from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.rewards.potential import (
    Milestone,
    Milestones,
    changed,
    gated,
    reading,
    shaping,
    step_shaping,
)
from rlvr_envs.state import Change, StateDiff

phis = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=30)
gammas = st.floats(0.01, 1.0)


def discounted(terms: np.ndarray, gamma: float) -> float:
    return math.fsum(gamma**step * term for step, term in enumerate(terms))


def test_the_worked_example_of_a_task_that_ended() -> None:
    terms = shaping([0.2, 0.5, 0.9, 0.7], gamma=0.9, terminated=True)

    assert terms == pytest.approx([0.25, 0.31, -0.90])
    assert discounted(terms, 0.9) == pytest.approx(-0.2)


def test_the_worked_example_of_a_budget_that_ended() -> None:
    terms = shaping([0.2, 0.5, 0.9, 0.8], gamma=0.9, terminated=False)

    assert terms[-1] == pytest.approx(-0.18)


@given(phis, gammas, st.booleans(), st.floats(0.0, 2.0))
def test_the_sum_depends_on_the_ends_alone(
    potentials: list[float], gamma: float, terminated: bool, weight: float
) -> None:
    terms = shaping(potentials, gamma=gamma, terminated=terminated, weight=weight)

    last = 0.0 if terminated else potentials[-1]
    ends = weight * (gamma ** len(terms) * last - potentials[0])
    assert discounted(terms, gamma) == pytest.approx(ends, abs=1e-9)


@given(phis, phis, gammas)
def test_two_paths_between_the_same_ends_pay_alike(
    one: list[float], other: list[float], gamma: float
) -> None:
    longer = [*one, 0.5, *other]
    detour = [*one, 0.1, *reversed(other)]

    sums = [
        discounted(shaping(path, gamma=gamma, terminated=True), gamma)
        for path in (longer, detour)
    ]

    assert sums[0] == pytest.approx(sums[1], abs=1e-9)


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), gammas)
def test_going_and_coming_back_never_pays(a: float, b: float, gamma: float) -> None:
    loop = shaping([a, b, a], gamma=gamma, terminated=False)

    assert discounted(loop, gamma) == pytest.approx(-(1 - gamma**2) * a, abs=1e-9)
    assert discounted(loop, gamma) <= 1e-12


@pytest.mark.parametrize("gamma", [0.0, 1.1, math.nan])
def test_a_discount_out_of_range_is_refused(gamma: float) -> None:
    with pytest.raises(ValueError, match="gamma"):
        step_shaping(0.0, 1.0, gamma=gamma, terminated=False)


@pytest.mark.parametrize("weight", [-1.0, math.inf, math.nan])
def test_a_weight_out_of_range_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="weight"):
        shaping([0.0, 1.0], gamma=1.0, terminated=True, weight=weight)


def test_an_episode_without_a_state_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one state"):
        shaping([], gamma=1.0, terminated=True)


def test_an_episode_without_a_step_has_no_terms() -> None:
    assert shaping([0.4], gamma=1.0, terminated=True).shape == (0,)


def diff(*paths: str, collateral: tuple[str, ...] = ()) -> StateDiff:
    changes = tuple(Change(path, "modified", "file") for path in paths)
    return StateDiff(changes, collateral)


PHI = Milestones(
    (
        Milestone("out", changed("/app/out.txt"), weight=3.0),
        Milestone("log", changed("/app/log.txt")),
    )
)


def test_milestones_weigh_what_holds_in_the_state() -> None:
    assert PHI(diff()) == 0.0
    assert PHI(diff("/app/out.txt")) == 0.75
    assert PHI(diff("/app/out.txt", "/app/log.txt")) == 1.0


def test_how_often_a_thing_was_changed_does_not_count() -> None:
    assert PHI(diff("/app/out.txt", "/app/out.txt")) == 0.75


def test_collateral_damage_gives_back_all_that_progress_paid() -> None:
    phi = gated(PHI)
    states = [
        diff(),
        diff("/app/out.txt"),
        diff("/app/out.txt", collateral=("/etc/x",)),
    ]

    terms = shaping([phi(state) for state in states], gamma=1.0, terminated=False)

    assert terms.tolist() == [0.75, -0.75]


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_a_potential_outside_its_range_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="rescale"):
        reading(lambda _: value, diff())


def test_no_milestones_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one milestone"):
        Milestones(())


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf])
def test_a_weightless_milestone_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="more than 0"):
        Milestone("x", changed("/x"), weight=weight)
