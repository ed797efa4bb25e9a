"""Webhooks, requests, and the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.relational import Delivered, HttpExchange
from rlvr_envs.verifiers.answer import Answer
from rlvr_envs.verifiers.rest_audit import RestAudit
from rlvr_envs.verifiers.webhook import Webhook
from tests.verifiers.builders import check, context
from tests.verifiers.databases import exchange, facts, state

NAME = "refund.created"


def sent(
    status: int = 200, *, name: str = NAME, key: str = "k", **body: Any
) -> Delivered:
    return Delivered(1, name, body or {"order_id": 170}, status, key)  # fmt: skip


def webhook(folder: Path, *deliveries: Delivered, **options: Any) -> str:
    spec = check("webhook", **{"name": NAME, **options})
    found = state(facts(deliveries=deliveries))
    given = context(folder, folder, hidden={"id": 170})
    return Webhook(spec).verify(found, given).checks[0].reason


BODY = {"order_id": {"hidden": "id"}}


@pytest.mark.parametrize(
    ("deliveries", "options"),
    [
        ((sent(),), {}),
        ((sent(503), sent()), {}),
        ((sent(), sent(name="other")), {}),
        ((), {"times": 0}),
        ((sent(key=""),), {"key": False}),
        ((sent(order_id=170, cents=5),), {"body": BODY}),
        ((sent(), sent()), {"times": 2}),
    ],
)
def test_as_often_as_asked_holds(
    tmp_path: Path, deliveries: tuple[Delivered, ...], options: dict[str, Any]
) -> None:
    assert webhook(tmp_path, *deliveries, **options) == ""


@pytest.mark.parametrize(
    ("deliveries", "options"),
    [
        ((), {}),
        ((sent(503),), {}),
        ((sent(202),), {}),
        ((sent(), sent()), {}),
        ((sent(key=""),), {}),
        ((sent(name="Refund.created"),), {}),
        ((sent(),), {"times": 0}),
        ((sent(), sent(name="other")), {"alone": True}),
        ((sent(order_id=171),), {"body": BODY}),
        ((sent(order_id="170"),), {"body": BODY}),
        ((sent(cents=5),), {"body": BODY}),
    ],
)
def test_more_or_less_or_another_does_not(
    tmp_path: Path, deliveries: tuple[Delivered, ...], options: dict[str, Any]
) -> None:
    assert webhook(tmp_path, *deliveries, **options) != ""


def done(
    operation: str = "create_refund", *, reads: bool = False, **fields: Any
) -> HttpExchange:
    given = {"status": 201, "parameters": {"order_id": 170, "cents": 4250}, **fields}
    return exchange("POST", "/refunds", operation, reads=reads, **given)  # fmt: skip


def audited(
    folder: Path, *exchanges: HttpExchange, **options: Any
) -> tuple[str, tuple[str, ...]]:
    wanted = {
        "operation": "create_refund",
        "parameters": {"order_id": {"hidden": "id"}},
    }
    spec = check("rest_audit", **{"writes": [wanted], **options})
    found = state(facts(exchanges=exchanges))
    findings = RestAudit(spec).verify(found, context(folder, folder, hidden={"id": 170}))  # fmt: skip
    return findings.checks[0].reason, findings.collateral


@pytest.mark.parametrize(
    "exchanges",
    [
        (done(),),
        (done(idempotency_key="k"), done(replayed=True, idempotency_key="k")),
        (done(status=503), done()),
        (
            done(status=503, idempotency_key="k"),
            done(replayed=True, idempotency_key="k"),
            done(replayed=True, idempotency_key="k"),
        ),
        (done("get_order", reads=True), done()),
        (done(), exchange("POST", "/refunds", status=404)),
    ],
)
def test_the_expected_write_done_once_holds(
    tmp_path: Path, exchanges: tuple[HttpExchange, ...]
) -> None:
    assert audited(tmp_path, *exchanges) == ("", ())


@pytest.mark.parametrize(
    "exchanges",
    [
        (),
        (done(status=409),),
        (done(), done()),
        (done(parameters={"order_id": 171}),),
        (done(parameters={"order_id": "170"}),),
        (done("create_voucher"),),
        (done(), done("create_voucher")),
        (
            done(status=503, idempotency_key="k"),
            done(replayed=True, idempotency_key="k"),
            done(idempotency_key="l"),
        ),
    ],
)
def test_other_writes_do_not(
    tmp_path: Path, exchanges: tuple[HttpExchange, ...]
) -> None:
    assert audited(tmp_path, *exchanges)[0] != ""


def test_writes_that_nobody_asked_for_are_collateral(tmp_path: Path) -> None:
    more = done("create_voucher", turn=4)

    assert audited(tmp_path, done(), more)[1] == ("/requests/4/create_voucher",)
    assert audited(tmp_path, done(), more, others=True) == ("", ())


def test_reads_that_must_be_made_are_missed(tmp_path: Path) -> None:
    reads = [{"operation": "get_order"}]
    read = done("get_order", reads=True, status=200)

    assert audited(tmp_path, done(), read, reads=reads) == ("", ())
    assert "not read" in audited(tmp_path, done(), reads=reads)[0]
    failed = done("get_order", reads=True, status=404)
    assert "not read" in audited(tmp_path, done(), failed, reads=reads)[0]


def answered(folder: Path, answer: str, **options: Any) -> str:
    spec = check("answer", **options)
    given = context(folder, folder, hidden={"n": 170})
    return Answer(spec).verify(state(facts(answer=answer)), given).checks[0].reason


RIGHT: list[tuple[str, dict[str, Any]]] = [
    ("170", {"type": "integer", "equals": {"hidden": "n"}}),
    ("170\n", {"type": "integer", "equals": 170}),
    (" 000170", {"type": "integer", "equals": 170}),
    ("+170", {"type": "integer", "equals": 170}),
    ("2.50", {"type": "decimal", "equals": "2.5"}),
    ("2", {"type": "decimal", "equals": 2}),
    ("000170\n", {"type": "text", "equals": "000170"}),
    ("Late  Order", {"type": "text", "equals": "late order", "normalise": ["casefold", "collapse_spaces"]}),
    ('{"n": 170}', {"type": "json", "equals": {"n": {"hidden": "n"}}}),
    ('{"n": 3}', {"type": "json", "schema": {"required": ["n"]}}),
]  # fmt: skip
WRONG: list[tuple[str, dict[str, Any]]] = [
    *((text, {"type": "integer", "equals": 2}) for text in (
        "", " ", "2.0", "'2'", '"2"', "two", "2 or 3", "2 3", "{}", "[2]", "NaN", "\uff12", "0x2", "2_0",
        "9" * 2000, "3", "-2",
    )),
    *((text, {"type": "decimal", "equals": "2.5"}) for text in ("2.51", "2,5", "25e-1", "NaN", "$2.5", "inf")),
    ("170", {"type": "text", "equals": "000170"}),
    ("1\n70", {"type": "text", "equals": {"hidden": "n"}, "normalise": ["sort_lines"]}),
    ('{"n": 1, "n": 170}', {"type": "json", "equals": {"n": 170}}),
    ('{"n": "170"}', {"type": "json", "equals": {"n": 170}}),
    ('{"n": 170, "m": 1}', {"type": "json", "equals": {"n": 170}}),
    ('{"n": true}', {"type": "json", "equals": {"n": 1}}),
    ('{"n": NaN}', {"type": "json", "schema": True}),
    ('{"n": 1e999}', {"type": "json", "schema": True}),
    ("{}", {"type": "json", "schema": {"required": ["n"]}}),
    ("\ud800", {"type": "json", "schema": True}),
    ("[" * 5000, {"type": "json", "schema": True}),
    ("9" * 70_000, {"type": "json", "schema": True}),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "options"), RIGHT)
def test_the_answer_in_its_type_holds(
    tmp_path: Path, answer: str, options: dict[str, Any]
) -> None:
    assert answered(tmp_path, answer, **options) == ""


@pytest.mark.parametrize(("answer", "options"), WRONG)
def test_what_only_looks_like_it_does_not(
    tmp_path: Path, answer: str, options: dict[str, Any]
) -> None:
    assert answered(tmp_path, answer, **options) != ""


def test_an_integer_that_python_does_not_read_is_no_json(tmp_path: Path) -> None:
    assert answered(tmp_path, "9" * 5000, type="json", schema=True) != ""


def test_half_characters_of_an_answer_do_not_reach_the_verdict(tmp_path: Path) -> None:
    told = answered(tmp_path, '{"\\ud800": 1}', type="json", equals={})

    assert "\\ud800 is extra" in told
    told.encode()
