"""The refund's three invariants, from what the harness found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.records import Outcome
from rlvr_envs.relational import DatabaseFacts, Delivered, RowChange
from tests.verifiers.builders import check
from tests.verifiers.databases import called, facts, insert, judged, update

BEFORE = {"id": "170", "status": "PAID", "refunded_cents": "0", "version": "1"}
DONE = update(
    "public.orders",
    BEFORE,
    status="PARTIALLY_REFUNDED",
    refunded_cents="4250",
    version="2",
)
ENTRY = insert("public.refunds", id="1", order_id="170", cents="4250")
SENT = Delivered(3, "notify", {"order_id": 170}, 200, "key")
SPEC = check(
    "refund",
    rows=[
        {
            "table": "public.orders",
            "kind": "update",
            "key": {"id": 170},
            "set": {"status": "PARTIALLY_REFUNDED", "refunded_cents": 4250},
            "free": ["version"],
        },
        {"table": "public.refunds", "kind": "insert", "set": {"cents": 4250}},
    ],
    webhook={"name": "notify", "body": {"order_id": 170}},
)
WRITES = ("/rows/public.orders/170", "/rows/public.refunds/**")


def paid(
    folder: Path,
    *changed: RowChange,
    turns: int = 6,
    deliveries: tuple[Delivered, ...] = (SENT,),
    **fields: Any,
) -> Outcome:
    found: DatabaseFacts = facts(
        *changed,
        deliveries=deliveries,
        calls=tuple(called(turn=n) for n in range(1, turns + 1)),
        times_s=tuple(float(n) for n in range(turns)),
    )
    return judged(folder, found, checks=(SPEC,), writes=WRITES, **fields)


@pytest.mark.parametrize(
    ("turns", "reward"), [(6, 1.0), (10, 0.968), (18, 0.92), (19, 0.0)]
)
def test_three_invariants_pay_by_the_turns(
    tmp_path: Path, turns: int, reward: float
) -> None:
    outcome = paid(tmp_path, DONE, ENTRY, turns=turns)

    assert outcome.reward == reward
    assert outcome.status == ("passed" if reward else "failed")
    assert outcome.efficiency_penalty == pytest.approx(1 - reward if reward else 0.0)


def test_the_webhook_alone_missing_pays_a_quarter(tmp_path: Path) -> None:
    refused = Delivered(3, "notify", {"order_id": 170}, 503, "key")

    assert paid(tmp_path / "a", DONE, ENTRY, deliveries=()).reward == 0.25
    assert paid(tmp_path / "b", DONE, ENTRY, deliveries=(refused,)).reward == 0.25


TWICE = (SENT, SENT)
KEYLESS = (Delivered(3, "notify", {"order_id": 170}, 200),)
ASTRAY = (Delivered(3, "notify", {"order_id": 171}, 200, "key"),)


@pytest.mark.parametrize("deliveries", [TWICE, KEYLESS, ASTRAY])
def test_a_second_a_keyless_and_a_stray_webhook_pay_nothing(
    tmp_path: Path, deliveries: tuple[Delivered, ...]
) -> None:
    assert paid(tmp_path, DONE, ENTRY, deliveries=deliveries).reward == 0.0


OTHER = update("public.orders", {**BEFORE, "id": "171"}, status="PARTIALLY_REFUNDED")


@pytest.mark.parametrize("more", [OTHER, insert("public.notes", body="x"), ENTRY])
def test_a_row_beside_pays_nothing(tmp_path: Path, more: RowChange) -> None:
    outcome = paid(tmp_path, DONE, ENTRY, more)

    assert (outcome.status, outcome.reward) == ("failed", 0.0)
    assert outcome.collateral != ()


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        (ENTRY,),
        (DONE,),
        (
            update(
                "public.orders",
                BEFORE,
                status="PARTIALLY_REFUNDED",
                refunded_cents="4251",
            ),
            ENTRY,
        ),
        (update("public.orders", BEFORE, status="REFUNDED", refunded_cents="4250"), ENTRY),
    ],
)  # fmt: skip
def test_anything_else_pays_nothing(
    tmp_path: Path, wrong: tuple[RowChange, ...]
) -> None:
    assert paid(tmp_path, *wrong).reward == 0.0


def test_tampering_pays_nothing_and_is_flagged(tmp_path: Path) -> None:
    denied = called(
        turn=2, state="42501", message='permission denied to set role "postgres"'
    )
    found = facts(DONE, ENTRY, deliveries=(SENT,), calls=(denied,))

    outcome = judged(tmp_path, found, checks=(SPEC,), writes=WRITES)

    assert (outcome.status, outcome.reward) == ("tampered", 0.0)
