"""What happened to a database, as plain data that a verifier may read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from rlvr_envs.records import ErrorKind, ToolCall, ToolCategory, digest_of

Row = Mapping[str, str | None]
"""Column name to the value's text, as the server prints it; ``None`` is NULL."""


class RowKind(StrEnum):
    """What was done to a row; `TRUNCATE` is of a whole table."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row written, or one table emptied.

    Attributes:
        table: ``schema.name``, unquoted.
        old: The row before; empty for an insert and a truncate.
        new: The row after; empty for a delete and a truncate.
        xid: Transaction that wrote it; 0 where only the outcome is known. It
            tells which changes belong together, and differs between runs.
        turn: Turn in which it was committed, from 1; 0 where that is not known.
        key: Columns of the table's primary key, in order; empty if it has none, or
            it is not known.
    """

    table: str
    kind: RowKind
    old: Row = field(default_factory=dict)
    new: Row = field(default_factory=dict)
    xid: int = 0
    turn: int = 0
    key: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """``/rows/<table>/<key>``: the key's values percent-encoded, with commas.

        A row of a table without a key is named by a digest of its values.
        """
        row = self.new or self.old
        if self.key:
            values = [str(row[name]) for name in self.key]
            coded = [quote(v, safe="", errors="surrogatepass") for v in values]
            return f"/rows/{self.table}/{','.join(coded)}"
        parts = [f"{name}={value!r}" for name, value in sorted(row.items())]
        return f"/rows/{self.table}/~{digest_of(parts).removeprefix('sha256:')[:12]}"


class DdlStage(StrEnum):
    """How far a command that changes definitions came."""

    STARTED = "started"
    ENDED = "ended"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class DdlObject:
    """An object that a command made, changed or dropped.

    Attributes:
        type: ``table``, ``index``, ``view``, ...
        identity: Its name in full; empty where the server has none.
        temporary: Whether it was the session's own and ended with it.
    """

    type: str
    identity: str
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class DdlEvent:
    """A command that changes definitions, as the server itself told of it.

    Attributes:
        tag: ``CREATE TABLE``, ``DROP VIEW``, ...
        objects: Empty for a command that only started.
    """

    stage: DdlStage
    tag: str
    objects: tuple[DdlObject, ...] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was really written, in the order of commits.

    Attributes:
        complete: False if the log was cut, for its size or because the server gave
            up keeping it: then its silence proves nothing.
    """

    changes: tuple[RowChange, ...] = ()
    ddl: tuple[DdlEvent, ...] = ()
    complete: bool = True

    @property
    def undone(self) -> tuple[str, ...]:
        """Tags of commands that began and left nothing, sorted, with repeats.

        They were denied, failed, or were rolled back.
        """
        started = Counter(e.tag for e in self.ddl if e.stage is DdlStage.STARTED)
        ended = Counter(e.tag for e in self.ddl if e.stage is DdlStage.ENDED)
        return tuple(sorted((started - ended).elements()))


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """An object of a database, and what it is.

    Attributes:
        kind: ``relation``, ``column``, ``function``, ``setting``, ...
        oid: The server's number for it; 0 where it has none.
    """

    kind: str
    name: str
    oid: int
    definition: str


@dataclass(frozen=True, slots=True)
class CatalogueChange:
    """An object that was made, removed or redefined.

    Attributes:
        old: Its definition before; empty if it is new.
        new: Its definition now; empty if it is gone.
    """

    kind: str
    name: str
    old: str = ""
    new: str = ""

    @property
    def path(self) -> str:
        """``/catalogue/<kind>/<name>``.

        Of a relation that stayed what it is, the kind is ``table``, ``view``,
        ``index`` or ``sequence``.
        """
        kinds = {_RELATIONS.get(text[:6]) for text in (self.old, self.new) if text}
        told = kinds.pop() if self.kind == "relation" and len(kinds) == 1 else None
        return f"/catalogue/{told or self.kind}/{self.name}"


_RELATIONS = {
    "kind r": "table",
    "kind p": "table",
    "kind v": "view",
    "kind m": "view",
    "kind i": "index",
    "kind I": "index",
    "kind S": "sequence",
}
"""How a relation's definition begins."""


@dataclass(frozen=True, slots=True)
class DatabaseDiff:
    """How a database differs from the template that it was cloned from.

    Attributes:
        rows: By table and key; an update is a row whose primary key stayed.
        catalogue: Sorted by kind and name.
        unread: Tables of the template that are not what they were, sorted: a view
            in a table's place runs its maker's code, so nothing reads it.
        complete: False if more rows differ than were asked for.
        more: Those tables, and how many rows at least differ beside those told.
    """

    rows: tuple[RowChange, ...] = ()
    catalogue: tuple[CatalogueChange, ...] = ()
    unread: tuple[str, ...] = ()
    complete: bool = True
    more: Mapping[str, int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether nothing differs."""
        return not (self.rows or self.catalogue or self.unread or not self.complete)

    @property
    def cut(self) -> str:
        """Say of an incomplete difference what it does not tell of."""
        told = [f"{count} of {table}" for table, count in sorted(self.more.items())]
        more = f" (at least {', '.join(told)})" if told else ""
        return f"more rows differ than are read{more}"


@dataclass(frozen=True, slots=True)
class Called:
    """One line of the tool log.

    Attributes:
        turn: From 1.
        state: SQLSTATE that a refused statement was answered with; empty if none.
        message: The server's message beside it.
    """

    turn: int
    call: ToolCall
    category: ToolCategory
    ok: bool = True
    error_kind: ErrorKind = ErrorKind.NONE
    state: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class HttpExchange:
    """One request at the service's door, as the service itself saw it.

    Attributes:
        turn: From 1.
        path: As the agent wrote it, query included.
        operation: Of the route that answered, such as ``create_refund``; empty
            where none did.
        reads: Whether the operation declares that it only looks.
        parameters: Of path, query and body, once validated; empty if they were not.
        status: Of the work: where it stands and only the answer was lost, that of the
            answer which nobody got, and not the 5xx that the agent saw.
        answer: As the agent saw it, decoded where it is JSON.
        idempotency_key: Empty if the request carried none.
        replayed: Whether the answer was an earlier one's, by that key.
    """

    turn: int
    method: str
    path: str
    operation: str
    reads: bool
    parameters: Mapping[str, Any]
    status: int
    answer: Any
    idempotency_key: str = ""
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Delivered:
    """One call that the sink of webhooks recorded; the agent cannot reach it.

    Attributes:
        turn: From 1.
        name: Of the webhook, such as ``refund.created``.
        status: As the sink answered.
    """

    turn: int
    name: str
    body: Any
    status: int
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True)
class Outbound:
    """One call of the service's to another company, which a recording answered.

    Attributes:
        turn: From 1.
        method: Of HTTP; empty for a call of gRPC.
        target: URL, or the full name of what was called.
        status: As it ended: ``200``, ``OK``; empty if nobody recorded the call, which
            the service's caller was told as a 502.
    """

    turn: int
    method: str
    target: str
    status: str


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """What the harness found of a database episode; ``facts["database"]``.

    Attributes:
        ended: What sessions were in the middle of when the freeze ended them.
        calls: The tool log, in order.
        exchanges: At the agent's HTTP door, in order.
        deliveries: At the sink, in order.
        outbound: Calls of the service's to other companies, in order.
        answer: What ``submit`` carried; empty if nothing.
        ended_s: World time of the last turn, in seconds since 1970.
        times_s: World time of each turn, in order, likewise.
        engine: ``postgres`` or ``sqlite``.
        overruns: Which limits of what episodes share the agent went beyond, in words;
            each fails the episode.
    """

    diff: DatabaseDiff
    ledger: Ledger
    ended: tuple[str, ...] = ()
    calls: tuple[Called, ...] = ()
    exchanges: tuple[HttpExchange, ...] = ()
    deliveries: tuple[Delivered, ...] = ()
    answer: str = ""
    ended_s: float = 0.0
    times_s: tuple[float, ...] = ()
    engine: str = "postgres"
    outbound: tuple[Outbound, ...] = ()
    overruns: tuple[str, ...] = ()
