"""A refund is written down once the payment provider paid, and not before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from rlvr_envs.envs.sql_rest.services import shop_tables
from rlvr_envs.envs.sql_rest.services.shop_tables import PAYMENTS, repaid
from rlvr_envs.relational import Outbound
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.roles import Access
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.templates import Template
from tests.databases import cluster
from tests.envs.sql_rest.test_shop import REFUND, ROWS, Shop, told

__all__ = ["cluster"]

CENTS = 4250


@pytest.fixture(scope="module")
def template(cluster: Cluster) -> Iterator[Template]:
    made = Template(cluster, Seed(shop_tables.database(ROWS)))
    yield made
    made.close()


@pytest.fixture
def clone(cluster: Cluster, template: Template) -> Iterator[Clone]:
    made = make_clone(cluster.filler(), template, Access())
    yield made
    made.close()


def shop_with(clone: Clone, *exchanges: Mapping[str, Any]) -> Shop:
    return Shop(clone, payments=True, exchanges=exchanges)


def is_untouched(clone: Clone) -> bool:
    clone.freeze()
    return clone.diff().empty and not clone.ledger().changes


def test_what_the_provider_pays_is_written_down(clone: Clone) -> None:
    here = shop_with(clone, repaid(170, CENTS))

    assert here.refund().status == 201
    assert here.refunded == CENTS
    assert here.service.outbound == [Outbound(1, "POST", PAYMENTS, "201")]
    here.service.close()


@pytest.mark.parametrize(
    ("status", "seen", "word"),
    [
        (402, 402, "declined: card_expired"),
        (409, 409, "declined: card_expired"),
        (400, 409, "declined: card_expired"),
        (429, 429, "busy"),
        (503, 503, "busy"),
        (500, 502, "failed"),
        (302, 502, "failed"),
    ],
)
def test_a_refusal_reaches_the_agent_and_writes_nothing(
    clone: Clone, status: int, seen: int, word: str
) -> None:
    row = repaid(170, CENTS, status=status, reason="card_expired")
    here = shop_with(clone, row)

    answer = here.refund(Idempotency_Key="k")

    assert (answer.status, word in told(answer)["detail"]) == (seen, True)
    assert ("retry-after" in answer.headers) == (seen in (429, 503))
    here.service.close()
    assert is_untouched(clone)


def test_a_key_that_was_declined_may_be_tried_again(clone: Clone) -> None:
    busy = repaid(170, CENTS, status=503, reason="busy")
    here = shop_with(clone, busy, repaid(170, CENTS))

    answers = [here.refund(Idempotency_Key="k").status for _ in range(3)]

    assert (answers, here.refunded) == ([503, 201, 201], CENTS)
    assert [call.status for call in here.service.outbound] == ["503", "201"]
    here.service.close()


def test_what_nobody_recorded_is_a_bad_gateway(clone: Clone) -> None:
    here = shop_with(clone, repaid(170, CENTS))

    answer = here.ask("POST", "/orders/170/refunds", {**REFUND, "cents": 1})

    assert answer.status == 502
    assert here.service.outbound == [Outbound(1, "POST", PAYMENTS, "")]
    here.service.close()
    assert is_untouched(clone)


def test_what_the_shop_itself_refuses_is_asked_of_nobody(clone: Clone) -> None:
    here = shop_with(clone, repaid(170, CENTS))

    here.ask("POST", "/orders/170/refunds", {**REFUND, "cents": 10_000})
    here.refund(if_match='"9"')

    assert here.service.outbound == []
    here.service.close()


@pytest.mark.parametrize("answer", ["", "no JSON", "[1]", '{"reason": null}'])
def test_a_provider_without_words_is_told_by_its_number(
    clone: Clone, answer: str
) -> None:
    here = shop_with(clone, {**repaid(170, CENTS, status=402), "answer": answer})

    assert told(here.refund())["detail"] == "The payment provider declined: 402."
    here.service.close()
