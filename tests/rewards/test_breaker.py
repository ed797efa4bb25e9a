from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.rewards.breaker import Breaker, Limit

FINE = {"entropy": 1.0, "gradient_norm": 2.0}
FLAT = {"entropy": 0.01, "gradient_norm": 2.0}


def fed(breaker: Breaker, *reports: dict[str, float]) -> Breaker:
    for report in reports:
        breaker = breaker.after(report)
    return breaker


def test_bad_reports_in_a_row_trip_it_and_say_why() -> None:
    breaker = fed(Breaker(), FLAT, FLAT, FLAT)

    assert breaker.tripped
    assert breaker.reason == "entropy is 0.01"


def test_a_good_report_between_forgives() -> None:
    assert not fed(Breaker(), FLAT, FLAT, FINE, FLAT, FLAT).tripped


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_not_finite_trips_it_at_once(value: float) -> None:
    assert fed(Breaker(), {"gradient_norm": value}).tripped


def test_an_exploding_gradient_trips_it() -> None:
    assert fed(Breaker(patience=1), {"gradient_norm": 1e4}).tripped


def test_it_stays_tripped_with_its_first_reason() -> None:
    breaker = fed(Breaker(patience=1), FLAT, FINE, {"gradient_norm": 1e4})

    assert breaker.reason == "entropy is 0.01"


@given(st.lists(st.floats(0.05, 6.0)))
def test_within_limits_it_never_trips(entropies: list[float]) -> None:
    reports = [{"entropy": value, "unknown": math.nan} for value in entropies]

    assert not fed(Breaker(), *reports).tripped


def test_other_numbers_can_be_watched() -> None:
    breaker = Breaker({"kl": Limit(high=0.5)}, patience=1)

    assert fed(breaker, {"kl": 0.6}).tripped
    assert not fed(breaker, {"kl": 0.5}).tripped


def test_no_patience_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="patience"):
        Breaker(patience=0)
