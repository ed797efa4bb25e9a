"""The bank's ledger: pages as the instance tells them, and nothing to write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rlvr_envs.envs.sql_rest.services.catalogue import SERVICES, open_service
from rlvr_envs.envs.sql_rest.services.service import Service
from tests.databases import MakeClone

PAGES = [[{"id": "E1", "amount": "1.50"}], [{"id": "E1"}, {"id": "E2"}]]
Ask = Callable[[str, str], tuple[int, Any]]


@pytest.fixture
def ledger(clone_of: MakeClone) -> Iterator[Service]:
    service = open_service("ledger", clone_of(), {"pages": PAGES}, lambda: 0.0)
    yield service
    service.close()


@pytest.fixture
def ask(ledger: Service) -> Ask:
    def request(method: str, path: str) -> tuple[int, Any]:
        answer = ledger.request(method, path, {}, "", 1)
        return answer.status, json.loads(answer.body)

    return request


def test_pages_name_the_one_that_follows(ask: Ask) -> None:
    first = ask("GET", "/entries")
    last = ask("GET", "/entries?page=2")

    assert first == (
        200,
        {"page": 1, "entries": PAGES[0], "next": "/entries?page=2"},
    )
    assert last == (200, {"page": 2, "entries": PAGES[1], "next": None})


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/entries?page=3", 404),
        ("/entries?page=0", 422),
        ("/entries?page=one", 422),
        ("/entries/E3", 404),
        ("/admin", 404),
    ],
)
def test_what_is_not_there_is_not_found(ask: Ask, path: str, status: int) -> None:
    assert ask("GET", path)[0] == status


def test_one_entry_can_be_read(ask: Ask) -> None:
    assert ask("GET", "/entries/E2") == (200, {"id": "E2"})


def test_a_ledger_takes_nothing(ask: Ask) -> None:
    assert ask("POST", "/entries")[0] == 405
    assert all(operation.reads for operation in SERVICES["ledger"].operations)


def test_reads_are_on_record(ledger: Service, ask: Ask) -> None:
    ask("GET", "/entries?page=2")

    (seen,) = ledger.exchanges
    assert (seen.operation, seen.reads, seen.parameters) == (
        "list_entries",
        True,
        {"page": "2"},
    )
