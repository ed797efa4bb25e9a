"""The ledger of a database as the writes of a ticket: who wrote what, for whom."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from rlvr_envs.records import ToolCategory
from rlvr_envs.relational import DatabaseFacts, Row, RowChange, RowKind
from rlvr_envs.rewards.tickets.inputs import LedgerEntry
from rlvr_envs.verifiers import typed
from rlvr_envs.verifiers.tool_log import attempted

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,99})(\.[0-9]{1,100})?")


@dataclass(frozen=True, slots=True)
class Record:
    """How an operation's write reads as an entry of a ticket's ledger.

    Attributes:
        table: Where the row stands that confirms the write; other rows of the same
            request are part of it.
        target: Column that names the record which the write is about.
        kind: Of the change to that row; empty for any.
        texts: Field to column, as text.
        numbers: Field to column, as a number; what is none stays text.
        customer: Column with the customer's name; empty if there is none.
        gives: Column with cents that go to the customer; empty for none.
        takes: The same for cents that are taken.
    """

    table: str
    target: str
    kind: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)
    customer: str = ""
    gives: str = ""
    takes: str = ""

    def tells(self, change: RowChange) -> bool:
        """Return whether a change is the row that confirms the write."""
        return change.table == self.table and self.kind in ("", change.kind)

    def entry(
        self, tool: str, change: RowChange, owners: Mapping[str, str]
    ) -> LedgerEntry:
        """Return the entry of a confirmed write."""
        row = change.new or change.old
        target = _text(row, self.target)
        texts = {name: row.get(column) for name, column in self.texts.items()}
        numbers = {name: _amount(row, col) for name, col in self.numbers.items()}
        return LedgerEntry(
            tool=tool,
            target=target,
            values={**texts, **numbers},
            customer=_text(row, self.customer) or owners.get(target, ""),
            customer_cents=_cents(row, self.gives) - _cents(row, self.takes),
            turn=_index(change),
        )


@dataclass(frozen=True, slots=True)
class Tracing:
    """What is needed to trace the changes of a ledger to operations.

    Attributes:
        records: By operation; ``None`` of one that is declared, and whose rows are
            nobody's business beyond the task's write set.
        ticket: Table and key of the ticket's own row, which is no write of its own.
        besides: Tables that are nobody's business.
        owners: Customer of a record, by target, where no column tells.
    """

    records: Mapping[str, Record | None]
    ticket: tuple[str, Mapping[str, Any]]
    besides: tuple[str, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)

    def is_ticket(self, change: RowChange) -> bool:
        """Return whether a change is of the ticket's own row."""
        table, key = self.ticket
        row = change.new or change.old
        return change.table == table and all(
            name in row and typed.text_agrees(row[name], value)
            for name, value in key.items()
        )

    def entries(self, facts: DatabaseFacts) -> Iterator[LedgerEntry]:
        """Yield the confirmed writes, in the order of commits.

        A change that no request explains is one of the tool that made it, or of
        nobody, so that no case allows it.
        """
        requests = {item.turn: item for item in facts.exchanges if attempted(item)}
        tools = {
            call.turn: call.call.name
            for call in facts.calls
            if call.category is ToolCategory.MUTATE
        }
        for change in facts.ledger.changes:
            if change.table in self.besides or self.is_ticket(change):
                continue
            request = requests.get(change.turn)
            tool = request.operation if request else tools.get(change.turn, "")
            if request is None or tool not in self.records:
                yield LedgerEntry(tool, change.path, turn=_index(change))
                continue
            record = self.records[tool]
            if record is not None and record.tells(change):
                yield record.entry(tool, change, self.owners)


def ending(facts: DatabaseFacts, tracing: Tracing, column: str) -> tuple[str, int]:
    """Return the status that the ticket's row was left with, and in which turn.

    Returns:
        Empty and 0 if it was left as it was.
    """
    changed = [
        change
        for change in facts.ledger.changes
        if tracing.is_ticket(change) and change.kind is RowKind.UPDATE
        if change.new.get(column) != change.old.get(column)
    ]
    return (_text(changed[-1].new, column), changed[-1].turn) if changed else ("", 0)


def _index(change: RowChange) -> int | None:
    return change.turn - 1 if change.turn else None


def _text(row: Row, column: str) -> str:
    return str(row.get(column) or "") if column else ""


def _amount(row: Row, column: str) -> int | Decimal | str | None:
    text = row.get(column)
    if text is None or not _NUMBER.fullmatch(text):
        return text
    return Decimal(text) if "." in text else int(text)


def _cents(row: Row, column: str) -> int:
    amount = _amount(row, column) if column else 0
    return amount if isinstance(amount, int) else 0
