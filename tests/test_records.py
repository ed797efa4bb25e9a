"""Outcomes, digests, budgets."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.records import (
    Budget,
    Check,
    Evidence,
    Outcome,
    Status,
    TamperCode,
    digest_of,
)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -0.1, 1.01])
def test_a_reward_outside_zero_to_one_is_refused(reward: float) -> None:
    with pytest.raises(ValueError, match="lies in"):
        Outcome(Status.PASSED, reward)


@pytest.mark.parametrize("status", [Status.TAMPERED, Status.INFRA_ERROR])
def test_a_void_or_tampered_episode_earns_nothing(status: Status) -> None:
    with pytest.raises(ValueError, match=r"earns 0\.0"):
        Outcome(status, 0.5)


def test_only_a_broken_world_is_unscorable() -> None:
    scorable = {status: Outcome(status, 0.0).scorable for status in Status}

    assert scorable == {
        Status.PASSED: True,
        Status.FAILED: True,
        Status.TAMPERED: True,
        Status.INFRA_ERROR: False,
    }


def test_an_outcome_names_checks_and_codes_once() -> None:
    seen = Evidence(TamperCode.TYPE_SPOOF, "/app/sol.py", "an object that equals all")
    outcome = Outcome(
        Status.TAMPERED,
        0.0,
        checks=(Check("a", passed=True), Check("b", passed=False)),
        evidence=(seen, seen),
    )

    shown = outcome.to_json()

    assert shown["passed"] == ["a"]
    assert shown["failed"] == ["b"]
    assert shown["tamper"] == ["TYPE_SPOOF"]


@pytest.mark.parametrize("value", [math.inf, math.nan, 0, -1])
@pytest.mark.parametrize("name", ["turns", "seconds", "step_timeout_s"])
def test_a_budget_is_positive_and_finite(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        Budget(**{name: value})  # type: ignore[arg-type]


@given(st.lists(st.binary(), max_size=4), st.lists(st.binary(), max_size=4))
def test_digests_differ_where_parts_do(one: list[bytes], two: list[bytes]) -> None:
    assert (digest_of(one) == digest_of(two)) == (one == two)
