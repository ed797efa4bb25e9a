from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.records import Evidence, Status, TamperCode
from rlvr_envs.rewards.tickets.refund import Delivery, RefundFacts, refund_outcome
from tests.rewards.tickets.builders import no_deadline, turn

SENT = Delivery(200, "key-1")
DONE = RefundFacts(order_matches=True, deliveries=(SENT,))
TURN = turn("http")
CHANGED = Evidence(TamperCode.HARNESS_TAMPER, "verifier.py", "digest changed")


def reward(facts: RefundFacts, turns: int = 6) -> float:
    return refund_outcome(facts, [TURN] * turns).reward


@pytest.mark.parametrize(
    ("turns", "earned"), [(1, 1.0), (6, 1.0), (10, 0.968), (16, 0.92), (18, 0.92)]
)
def test_a_win_pays_for_its_turns(turns: int, earned: float) -> None:
    assert reward(DONE, turns) == earned


def test_what_the_turns_cost_is_told() -> None:
    outcome = refund_outcome(DONE, [TURN] * 18)

    assert outcome.status is Status.PASSED
    assert outcome.efficiency_penalty == 0.08


def test_a_nineteenth_turn_loses() -> None:
    assert reward(DONE, 19) == 0.0


@pytest.mark.parametrize("turns", [6, 18])
def test_the_webhook_alone_missing_earns_a_quarter(turns: int) -> None:
    unsent = replace(DONE, deliveries=())

    outcome = refund_outcome(unsent, [TURN] * turns)

    assert outcome.reward == 0.25
    assert outcome.status is Status.FAILED
    assert outcome.reason == "failed: webhook_once"


def test_a_delivery_that_was_refused_is_none() -> None:
    refused = Delivery(503, "key-1")

    assert reward(replace(DONE, deliveries=(refused,))) == 0.25
    assert reward(replace(DONE, deliveries=(refused, SENT))) == 1.0


@pytest.mark.parametrize(
    "change",
    [
        {"deliveries": (SENT, SENT)},
        {"deliveries": (SENT, Delivery(200, "key-2"))},
        {"deliveries": (Delivery(200),)},
        {"collateral": ("orders 1002",)},
        {"collateral": ("orders 1002",), "deliveries": ()},
        {"order_matches": False},
        {"order_matches": False, "deliveries": ()},
    ],
    ids=["twice", "other key", "no key", "collateral", "both", "ledger", "nothing"],
)
def test_anything_else_earns_nothing(change: dict[str, object]) -> None:
    outcome = refund_outcome(replace(DONE, **change), [TURN] * 6)  # type: ignore[arg-type]  # a table of differing fields

    assert outcome.reward == 0.0
    assert outcome.status is Status.FAILED
    assert not outcome.tamper


@pytest.mark.parametrize("turns", [6, 19])
def test_a_changed_harness_earns_nothing_and_is_flagged(turns: int) -> None:
    outcome = refund_outcome(replace(DONE, tampering=(CHANGED,)), [TURN] * turns)

    assert outcome.reward == 0.0
    assert outcome.status is Status.TAMPERED
    assert outcome.tamper == ("HARNESS_TAMPER",)


states = st.builds(
    RefundFacts,
    order_matches=st.booleans(),
    collateral=st.sampled_from([(), ("orders 1002",)]),
    deliveries=st.lists(
        st.builds(Delivery, st.sampled_from([200, 503]), st.sampled_from(["", "k"])),
        max_size=3,
    ).map(tuple),
)


@no_deadline
@given(states, st.integers(1, 17))
def test_one_turn_more_never_pays(facts: RefundFacts, turns: int) -> None:
    assert reward(facts, turns + 1) <= reward(facts, turns)


@no_deadline
@given(states, st.integers(1, 25))
def test_collateral_never_pays(facts: RefundFacts, turns: int) -> None:
    assert reward(replace(facts, collateral=("orders 7",)), turns) == 0.0


@no_deadline
@given(states, st.integers(1, 25))
def test_rewards_are_of_three_kinds(facts: RefundFacts, turns: int) -> None:
    earned = reward(facts, turns)

    assert earned in (0.0, 0.25) or 0.92 <= earned <= 1.0
