"""The server's log of what was written, from its replication protocol to rows.

Source:
    PostgreSQL documentation, "Logical Replication Message Formats", version 1 of
    the protocol.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from rlvr_envs.relational import (
    DdlEvent,
    DdlObject,
    DdlStage,
    Ledger,
    RowChange,
    RowKind,
)

FLUSH_PREFIX = "rlvr.flush"
TURN_PREFIX = "rlvr.turn"
_DDL_PREFIX = "rlvr.ddl."


@dataclass(frozen=True, slots=True)
class _Relation:
    title: str
    columns: tuple[str, ...]


class _Reader:
    """A message and how far it was read."""

    def __init__(self, message: bytes) -> None:
        self._data = memoryview(message)
        self._at = 0

    def integer(self, form: str) -> int:
        (value,) = struct.unpack_from(f"!{form}", self._data, self._at)
        self._at += struct.calcsize(f"!{form}")
        return int(value)

    def take(self, size: int) -> bytes:
        self._at += size
        return bytes(self._data[self._at - size : self._at])

    def letter(self) -> str:
        return self.take(1).decode("ascii")

    def string(self) -> str:
        end = bytes(self._data[self._at :]).index(b"\0")
        text = self.take(end).decode()
        self._at += 1
        return text


class Decoder:
    """Turns messages, in order, into what they tell of.

    Attributes:
        changes: Rows, in the order of commits.
        ddl: Commands that change definitions, as the event triggers told.
        flushes: What was sent to mark an end.
    """

    def __init__(self) -> None:
        self.changes: list[RowChange] = []
        self.ddl: list[DdlEvent] = []
        self.flushes: list[str] = []
        self._relations: dict[int, _Relation] = {}
        self._xid = 0
        self._told = 0
        self._rows: dict[str, Callable[[_Reader], None]] = {
            "B": self._begin,
            "R": self._relation,
            "I": self._insert,
            "U": self._update,
            "D": self._delete,
            "T": self._truncate,
            "M": self._message,
        }

    def feed(self, message: bytes) -> None:
        """Take one message in; kinds that tell of no row are passed over."""
        reader = _Reader(message)
        act = self._rows.get(reader.letter())
        if act is not None:
            act(reader)

    def _begin(self, reader: _Reader) -> None:
        reader.take(16)
        self._xid = reader.integer("I")

    def _relation(self, reader: _Reader) -> None:
        number = reader.integer("I")
        schema, name = reader.string() or "pg_catalog", reader.string()
        reader.take(1)
        columns = []
        for _ in range(reader.integer("H")):
            reader.take(1)
            columns.append(reader.string())
            reader.take(8)
        self._relations[number] = _Relation(f"{schema}.{name}", tuple(columns))

    def _insert(self, reader: _Reader) -> None:
        relation = self._relations[reader.integer("I")]
        reader.take(1)
        self._add(relation, RowKind.INSERT, {}, _values(reader, relation, {}))

    def _update(self, reader: _Reader) -> None:
        relation = self._relations[reader.integer("I")]
        old: dict[str, str | None] = {}
        if reader.letter() != "N":
            old = _values(reader, relation, {})
            reader.take(1)
        self._add(relation, RowKind.UPDATE, old, _values(reader, relation, old))

    def _delete(self, reader: _Reader) -> None:
        relation = self._relations[reader.integer("I")]
        reader.take(1)
        self._add(relation, RowKind.DELETE, _values(reader, relation, {}), {})

    def _truncate(self, reader: _Reader) -> None:
        count = reader.integer("I")
        reader.take(1)
        for _ in range(count):
            relation = self._relations[reader.integer("I")]
            self._add(relation, RowKind.TRUNCATE, {}, {})

    def _message(self, reader: _Reader) -> None:
        reader.take(9)
        prefix = reader.string()
        content = reader.take(reader.integer("I")).decode()
        if prefix == FLUSH_PREFIX:
            self.flushes.append(content)
        elif prefix == TURN_PREFIX:
            self._end_turn(int(content))
        elif prefix.startswith(_DDL_PREFIX):
            self.ddl.append(_ddl(prefix.removeprefix(_DDL_PREFIX), content))

    def _end_turn(self, turn: int) -> None:
        """Give what was committed since the last such mark its turn."""
        for place in range(self._told, len(self.changes)):
            self.changes[place] = replace(self.changes[place], turn=turn)
        self._told = len(self.changes)

    def _add(
        self,
        relation: _Relation,
        kind: RowKind,
        old: dict[str, str | None],
        new: dict[str, str | None],
    ) -> None:
        self.changes.append(RowChange(relation.title, kind, old, new, self._xid))


def decode(messages: Iterable[bytes], *, until: str) -> Ledger:
    """Return what messages tell of.

    Args:
        messages: As the server sends them, the oldest first.
        until: What was sent last; a ledger that does not hold it is incomplete.
    """
    decoder = Decoder()
    for message in messages:
        decoder.feed(message)
    complete = until in decoder.flushes
    return Ledger(tuple(decoder.changes), tuple(decoder.ddl), complete)


def _values(
    reader: _Reader, relation: _Relation, old: dict[str, str | None]
) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    count = reader.integer("H")
    for name in relation.columns[:count]:
        kind = reader.letter()
        if kind == "t":
            values[name] = reader.take(reader.integer("I")).decode()
        else:
            # A large value that an update left alone is not sent again.
            values[name] = old.get(name) if kind == "u" else None
    return values


def _ddl(stage: str, content: str) -> DdlEvent:
    told = json.loads(content)
    objects = tuple(
        DdlObject(item["type"], item["identity"] or "", item["temporary"])
        for item in told.get("objects", ())
    )
    return DdlEvent(DdlStage(stage), told["tag"], objects)
