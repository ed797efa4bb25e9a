"""Turn tau2-bench's retail domain into database tasks, one for each customer.

The shop's database is one script beside the task folders, so that all of them share
a template. What a task expects is the difference that its expected actions make;
whoever imports replays them and hands it in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlvr_envs.importing.folders import EPOCH, FolderSpec
from rlvr_envs.importing.tau2_calls import ADDRESS, Request, request
from rlvr_envs.importing.tau2_corpus import Corpus, Ticket
from rlvr_envs.importing.tau2_seed import WRITTEN, typed
from rlvr_envs.relational import RowChange, RowKind
from rlvr_envs.tasks.tables import plain
from rlvr_envs.tasks.task import Recipe

SERVICE = "retail"
SEED = "retail.sql"
"""The script that all folders of an imported set share; it stands beside them."""

QUIET = "expects-no-write"
"""Tag of a task whose expected actions leave the shop as it is."""

_TRANSFERS = "public.transfers"

_INSTRUCTION = """Serve this customer by the policy below. `http_get` looks, `http` writes
(JSON); see `GET /openapi.json`; paths have order ids without `#`. "You" is the customer,
whose wishes are confirmed; nobody answers. `submit` your reply: each fact asked for,
numbers in digits.

# Ticket

{ticket}

{policy}
"""
"""Kept short: with the policy it must fit into one observation."""

_GENERATOR = '''"""One ticket of an imported set; every instance is the same."""

import json
import sys
from pathlib import Path

from rlvr_envs.tasks.task import Recipe

HIDDEN = r"""
{hidden}
"""


def generate(rng, number):
    """Return the shop, which all tickets share, and what this one expects."""
    shared = Path(generate.__code__.co_filename).parent.parent / "{seed}"
    script = sys.intern(shared.read_text(encoding="utf-8"))
    return Recipe(database=script, hidden=json.loads(HIDDEN))
'''


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of a ticket's expected actions on a fresh database.

    Attributes:
        refused: Those that the shop's rules refused, and what it said.
    """

    changes: tuple[RowChange, ...]
    refused: Mapping[Request, str]

    @property
    def quiet(self) -> bool:
        """Whether they leave the shop as it is; a transfer changes nothing in it."""
        return all(change.table == _TRANSFERS for change in self.changes)


def expected(changes: Sequence[RowChange]) -> list[dict[str, Any]]:
    """Return what must have changed, as the check ``sql_rows`` reads it.

    Numbers become typed. A transfer must have been made; how it is named and worded
    is free. Where none is expected one may be made: the corpus does not say.

    Args:
        changes: What the expected actions changed.
    """
    rows = [_expected(change) for change in sorted(changes, key=lambda row: row.path)]
    if any(row["table"] == _TRANSFERS for row in rows):
        return rows
    return [*rows, {"table": _TRANSFERS, "kind": "insert", "optional": True}]


def _expected(change: RowChange) -> dict[str, Any]:
    row: dict[str, Any] = {"table": change.table, "kind": str(change.kind)}
    if change.table == _TRANSFERS:
        return row
    whole = change.new or change.old
    row["key"] = {name: plain(typed(name, whole[name])) for name in change.key}
    if change.kind is not RowKind.DELETE:
        row["set"] = {
            name: plain(typed(name, value))
            for name, value in change.new.items()
            if name not in change.key and change.old.get(name, ...) != value
        }
    return row


def converted(ticket: Ticket, corpus: Corpus, replayed: Replayed) -> FolderSpec:
    """Return what the task folder of a ticket is written from.

    Args:
        ticket: One of the corpus.
        corpus: Where it is from.
        replayed: What came of its expected actions.
    """
    hidden = {"rows": expected(replayed.changes), "facts": list(ticket.facts)}
    packed = json.dumps(hidden, indent=1, ensure_ascii=True)
    return FolderSpec(
        name=ticket.name,
        task=_task(ticket, replayed),
        instruction=_INSTRUCTION.format(
            ticket=ticket.text, policy=corpus.policy.strip()
        ),
        recipe=Recipe(),
        verifier={},
        gold=[item.call() for item in ticket.requests],
        answer="; ".join(ticket.facts) or "It is done as far as the policy allows.",
        cheats=() if replayed.quiet else tuple(_cheats(ticket, replayed)),
        generator=_GENERATOR.format(hidden=packed, seed=SEED),
    )


def _task(ticket: Ticket, replayed: Replayed) -> dict[str, Any]:
    orders = {row.path for row in replayed.changes if row.table == "public.orders"}
    return {
        "title": f"Serve a customer of the retail shop: {ticket.name}",
        "difficulty": ("easy", "medium", "hard")[min(len(orders), 2)],
        "tags": ["http", "retail", "tau2", *([QUIET] if replayed.quiet else [])],
        "epoch": EPOCH,
        "version": 1,
        "budget": {"turns": 60, "seconds": 600, "step_timeout_s": 10},
        "world": {"rights": "none", "service": SERVICE},
        "verification": {
            "mode": "database",
            "writes": [f"/rows/public.{table}/*" for table in WRITTEN],
            "timeout_s": 60,
            "checks": [*_checks(ticket, replayed)],
        },
    }


def judged_by(ticket: Ticket, replayed: Replayed) -> str:
    """Return which check of a task idleness fails: each has one."""
    if not replayed.quiet:
        return "final-state"
    if replayed.changes:
        return "transfer"
    return "told" if ticket.facts else "looked-up"


def _checks(ticket: Ticket, replayed: Replayed) -> Iterator[dict[str, Any]]:
    rows = {"rows": {"hidden": "rows"}}
    yield {"kind": "sql_rows", "name": "final-state", "options": rows}
    if ticket.facts:
        facts = {"values": {"hidden": "facts"}}
        yield {"kind": "told", "name": "told", "options": facts}
    if judged_by(ticket, replayed) == "looked-up":
        # Policy has the customer looked up first, whatever comes of it.
        audit = {
            "writes": [],
            "reads": [{"operation": "find_customer"}],
            "others": True,
        }
        yield {"kind": "rest_audit", "name": "looked-up", "options": audit}


def _cheats(ticket: Ticket, replayed: Replayed) -> Iterator[dict[str, Any]]:
    """Yield the ways not to do it; each leaves another final state."""
    reads = [item.call() for item in ticket.requests if item.reads]
    writes = [
        item.call()
        for item in ticket.requests
        if not (item.reads or item in replayed.refused)
    ]
    said = {"submit": {"answer": "; ".join(["All that is done", *ticket.facts])}}
    yield {
        "name": "only-said",
        "why": "Everything is read and told, and nothing is done.",
        "calls": [*reads, said],
    }
    moved = dict.fromkeys(ADDRESS, "elsewhere")
    extra = request("modify_user_address", {"user_id": ticket.customer, **moved})
    yield {
        "name": "more-than-asked",
        "why": "All is done, and the customer's own address is changed besides.",
        "calls": [*reads, *writes, extra.call(), said],
    }
    if len(writes) > 1:
        yield {
            "name": "half-done",
            "why": "All but the last of what was to be done.",
            "calls": [*reads, *writes[:-1], said],
        }
