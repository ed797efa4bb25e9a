"""Confinement only narrows."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.confinement import ClockRule, Confinement, EgressRule, Limits

limits = st.builds(
    Limits, **{item.name: st.integers(1, 1 << 40) for item in fields(Limits)}
)


@given(limits, limits)
def test_limits_only_narrow(one: Limits, two: Limits) -> None:
    narrowed = one.narrow(two)

    for item in fields(Limits):
        assert getattr(narrowed, item.name) <= getattr(one, item.name)
        assert getattr(narrowed, item.name) <= getattr(two, item.name)


@given(limits, limits)
def test_narrowing_has_no_order(one: Limits, two: Limits) -> None:
    assert one.narrow(two) == two.narrow(one)


def test_a_set_clock_cannot_be_moved() -> None:
    held = Confinement(clock=ClockRule(1_000))

    assert held.narrow(clock=ClockRule(2_000)).clock == ClockRule(1_000)


def test_a_set_egress_rule_stays() -> None:
    held = Confinement(egress=EgressRule({"a.test": "127.0.0.1"}))

    assert held.narrow(egress=EgressRule()).egress == held.egress


def test_a_clock_moves_by_its_step_each_turn() -> None:
    rule = ClockRule(None, step_s=2.5).starting(1_000)

    assert [rule.at_turn(turn) for turn in (0, 1, 4)] == [1_000, 1_002.5, 1_010]


def test_a_clock_without_an_epoch_has_no_time() -> None:
    with pytest.raises(ValueError, match="no epoch"):
        ClockRule().at_turn(0)


@pytest.mark.parametrize("step_s", [-1.0, float("nan"), float("inf")])
def test_a_clock_never_runs_backwards(step_s: float) -> None:
    with pytest.raises(ValueError, match="step_s"):
        ClockRule(0, step_s=step_s)
