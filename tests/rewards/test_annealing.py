from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.records import Status
from rlvr_envs.rewards.annealing import (
    Anneal,
    Timetable,
    compliance,
    pass_at_16,
    path_anneal,
    potential_anneal,
)
from rlvr_envs.rewards.estimates import Tally
from tests.rewards.builders import episode

readings = st.lists(st.none() | st.floats(0.0, 1.0), max_size=40)
controllers = st.builds(
    Anneal,
    threshold=st.floats(0.0, 0.99),
    patience=st.integers(1, 4),
    span=st.integers(0, 6),
)


def weights(controller: Anneal, *given: float | None) -> list[float]:
    out = []
    for reading in given:
        controller = controller.after(reading)
        out.append(controller.weight)
    return out


def test_a_hard_switch_is_off_at_once() -> None:
    assert weights(potential_anneal(), 0.10, 0.15, 0.16, 0.0) == [1.0, 1.0, 0.0, 0.0]


def test_a_smooth_one_falls_in_equal_steps() -> None:
    fall = weights(potential_anneal(span=3), 0.2, 0.2, 0.2, 0.2, 0.2)

    assert fall == pytest.approx([0.75, 0.5, 0.25, 0.0, 0.0])


def test_compliance_must_saturate_three_times_in_a_row() -> None:
    assert weights(path_anneal(), 0.96, 0.96, 0.5, 1.0, 1.0, 1.0) == [
        1.0,
        1.0,
        1.0,
        1.0,
        1.0,
        0.0,
    ]


def test_what_could_not_be_measured_neither_counts_nor_breaks_the_streak() -> None:
    assert weights(path_anneal(), 1.0, None, 1.0, None, 1.0)[-1] == 0.0


@given(controllers, readings)
def test_a_weight_only_ever_falls(
    controller: Anneal, given_: list[float | None]
) -> None:
    fall = [controller.weight, *weights(controller, *given_)]

    assert fall == sorted(fall, reverse=True)
    assert all(0.0 <= weight <= 1.0 for weight in fall)


@given(controllers, readings)
def test_once_begun_it_ends_within_its_span(
    controller: Anneal, given_: list[float | None]
) -> None:
    for reading in given_:
        controller = controller.after(reading)
    begun = controller.since >= 0

    rest = weights(controller, *[None] * controller.span)

    assert begun == (controller.weight < 1.0)
    assert not begun or ([controller.weight, *rest])[-1] == 0.0


@given(controllers, st.lists(st.floats(0.0, 1.0), max_size=20))
def test_below_the_threshold_nothing_happens(
    controller: Anneal, given_: list[float]
) -> None:
    low = [reading * controller.threshold for reading in given_]

    assert set(weights(controller, *low)) <= {1.0}


@pytest.mark.parametrize("reading", [-0.1, 1.1, math.nan])
def test_a_reading_out_of_range_is_refused(reading: float) -> None:
    with pytest.raises(ValueError, match="reading"):
        path_anneal().after(reading)


@pytest.mark.parametrize(
    "bad",
    [
        {"threshold": 1.0},
        {"threshold": 0.1, "patience": 0},
        {"threshold": 0.1, "span": -1},
    ],
)
def test_controllers_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"threshold|patience"):
        Anneal(**bad)  # type: ignore[arg-type]


def test_the_full_recipe_switches_off_after_two_thirds() -> None:
    table = Timetable()

    assert [table.weight(done) for done in (0.0, 0.66, 2 / 3, 1.0)] == [1, 1, 0, 0]


def test_a_smooth_timetable_is_linear_between_its_ends() -> None:
    table = Timetable(0.5, 1.0)

    assert table.weight(0.75) == pytest.approx(0.5)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_timetable_only_falls(a: float, b: float, c: float, d: float) -> None:
    table = Timetable(min(a, b), max(a, b))

    assert table.weight(min(c, d)) >= table.weight(max(c, d))


def test_a_timetable_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="timetable"):
        Timetable(0.6, 0.5)
    with pytest.raises(ValueError, match="progress"):
        Timetable().weight(math.nan)


def test_pass_at_16_waits_for_sixteen_tries() -> None:
    assert pass_at_16([Tally(8, 4)]) is None
    assert pass_at_16([Tally(16, 1), Tally(16, 0)]) == pytest.approx(0.5)


def test_compliance_counts_what_the_policy_did_itself() -> None:
    drawn = [
        episode(1.0),
        episode(0.0),
        episode(1.0, scripted=True),
        episode(status=Status.INFRA_ERROR),
    ]

    assert compliance(drawn, [0, 2, 0, 0]) == 0.5
    assert compliance(drawn[2:], [0, 0]) is None
