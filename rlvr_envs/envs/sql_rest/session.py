"""What an agent can do with a database, each as one call that always returns."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar, Protocol

from psycopg.pq import TransactionStatus
from typing_extensions import override

from rlvr_envs.envs.sql_rest.observation import render
from rlvr_envs.envs.sql_rest.wire import Answer, SqlError, Wire
from rlvr_envs.records import ErrorKind, Event, ToolResult
from rlvr_envs.sandbox.postgres.clone import Clone
from rlvr_envs.sandbox.postgres.showing import shown

_DENIED = "42501"
_READ_ONLY = "25006"
_NO_LOOK = "cannot execute {} in a read-only transaction"
_LOOKS = frozenset({"", "SHOW", "EXPLAIN", "DO", "PREPARE", "DEALLOCATE"})
_COUNTED_LOOKS = ("SELECT ", "COPY ")
"""Tags of what shows something; ``VALUES``, ``TABLE`` and ``EXECUTE`` say SELECT. A
prepared statement is no more than a name for one."""

_STATES = {
    TransactionStatus.INTRANS: "[a transaction is open]",
    TransactionStatus.INERROR: "[the transaction failed: ROLLBACK ends it]",
}
_OVERRUN = "{}: this episode has no door any more, and all that is left is to submit it"
_RESTARTED = "[the session was lost and a new one opened; what it held is undone]"

_COLUMNS = """
SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS relation,
  CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'view' ELSE 'table' END AS kind,
  a.attname AS column, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type,
  CASE WHEN a.attnotnull THEN 'not null' END AS nullable,
  pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS default
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relkind IN ('r', 'p', 'v', 'm') AND NOT a.attisdropped
  AND n.nspname !~ '^pg_'
  AND n.nspname NOT IN ('information_schema', 'rlvr_audit', 'rlvr_service')
ORDER BY n.nspname, c.relname, a.attnum
"""
_CONSTRAINTS = """
SELECT c.conrelid::pg_catalog.regclass AS relation, c.conname AS constraint,
  pg_catalog.pg_get_constraintdef(c.oid) AS definition
FROM pg_catalog.pg_constraint c
JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace
WHERE c.conrelid <> 0 AND c.contype <> 'n' AND n.nspname !~ '^pg_'
  AND n.nspname NOT IN ('information_schema', 'rlvr_service')
ORDER BY n.nspname, c.conrelid::pg_catalog.regclass::text, c.conname
"""


class Channel(Protocol):
    """What statements are sent through."""

    @property
    def transaction(self) -> TransactionStatus:
        """Whether a transaction is open, or failed and waits for its end."""

    def run(self, statement: bytes, deadline: float) -> Answer:
        """Send one statement, without NULs; it ends by a time of `time.monotonic`."""


class Session(ABC):
    """The agent's door to a database: one session that lasts from call to call.

    A call never raises for what the agent did. A session that the agent or a
    limit ended is replaced, and the observation says so.

    Args:
        step_timeout_s: Wall time of one call; the agent cannot raise it.
        limit_rows: Rows shown of one answer.
        limit_bytes: Bytes of values shown of one answer.

    Attributes:
        error: What the server said of the last statement, if it refused it.
        over: Why this door is shut for good; empty while it is not.

    Raises:
        ValueError: If the timeout is not positive and finite.
        SandboxError: If the server is gone.
    """

    columns: ClassVar[str]
    constraints: ClassVar[str]

    def __init__(
        self,
        *,
        step_timeout_s: float = 30.0,
        limit_rows: int = 200,
        limit_bytes: int = 32_768,
    ) -> None:
        self._step_timeout_s = _seconds(step_timeout_s)
        self._limit_rows = limit_rows
        self._limit_bytes = limit_bytes
        self._left_s = math.inf
        self.error: SqlError | None = None
        self.over = ""
        self._wire = self._open()

    def limit_s(self, seconds: float) -> None:
        """Say how much of the episode's time is left for the coming call.

        Raises:
            ValueError: If it is not positive and finite.
        """
        self._left_s = _seconds(seconds)

    def sql(self, statement: str) -> ToolResult:
        """Run one statement as the agent's role.

        Raises:
            SandboxError: If the server is gone.
        """
        left_s, self._left_s = self._left_s, math.inf
        self.error = None
        try:
            query = statement.encode()
        except UnicodeEncodeError:
            query = b"\0"
        if b"\0" in query:
            text = "A statement is Unicode text without NULs."
            return ToolResult(text, ok=False, error_kind=ErrorKind.INVALID_ARGUMENTS)
        limit_s = min(left_s, self._step_timeout_s)
        answer = self._answer(query, time.monotonic() + limit_s)
        self.error = answer.error
        notes = self._notes(answer, limit_s)
        limit = "episode" if left_s < self._step_timeout_s else "step"
        return self._result(answer, notes, limit if answer.timed_out else "")

    def schema(self) -> ToolResult:
        """Return columns and constraints, read in the agent's own session.

        Raises:
            SandboxError: If the server is gone.
        """
        left_s = self._left_s
        columns = self.sql(self.columns)
        if not columns.ok:
            return columns
        self._left_s = left_s
        constraints = self.sql(self.constraints)
        text = f"{columns.text}\n\n{constraints.text}"
        total = columns.bytes_total + constraints.bytes_total
        return replace(constraints, text=text, bytes_total=total, raw=text.encode())

    def _answer(self, query: bytes, deadline: float) -> Answer:
        return self._wire.run(query, deadline)

    def _notes(self, answer: Answer, limit_s: float) -> list[str]:
        notes = []
        if answer.timed_out:
            notes.append(f"[the statement was stopped after {limit_s:g} s]")
        if self.over:
            return [*notes, f"[{self.over}]"]
        if answer.lost:
            self._wire = self._open()
            notes.append(_RESTARTED)
        state = _STATES.get(self._wire.transaction)
        return [*notes, state] if state else notes

    def _result(self, answer: Answer, notes: list[str], limit: str) -> ToolResult:
        text = self._plain("\n".join([render(answer), *notes]))
        return ToolResult(
            text,
            ok=answer.error is None and not answer.timed_out,
            error_kind=_error_kind(answer),
            timed_out=answer.timed_out,
            limit=limit,
            bytes_total=answer.bytes_total,
            raw=text.encode(),
            events=self._events(answer),
            omitted_bytes=answer.bytes_total - answer.bytes_kept,
        )

    def _events(self, answer: Answer) -> tuple[Event, ...]:
        events = []
        if answer.error is not None and answer.error.state == _DENIED:
            events.append(Event("denied", detail=self._plain(answer.error.message)))
        if answer.lost and not self.over:
            events.append(Event("session_restarted"))
        return tuple(events)

    @abstractmethod
    def _open(self) -> Channel:
        """Open the session, or another one in the place of one that was lost."""

    def _plain(self, text: str) -> str:
        """Return what the agent may see of a text: the same in every run."""
        return text


class SqlSession(Session):
    """A session of the agent's role in a clone of PostgreSQL.

    Args:
        clone: It outlives the session, which does not own it.
        step_timeout_s: See `Session`.
        limit_rows: See `Session`.
        limit_bytes: See `Session`.

    Raises:
        ValueError: If the timeout is not positive and finite.
        SandboxError: If the server is gone.
    """

    columns = _COLUMNS
    constraints = _CONSTRAINTS

    def __init__(
        self,
        clone: Clone,
        *,
        step_timeout_s: float = 30.0,
        limit_rows: int = 200,
        limit_bytes: int = 32_768,
    ) -> None:
        self._clone = clone
        super().__init__(
            step_timeout_s=step_timeout_s,
            limit_rows=limit_rows,
            limit_bytes=limit_bytes,
        )

    @override
    def _plain(self, text: str) -> str:
        return shown(text, self._clone.name)

    @override
    def _open(self) -> Channel:
        self._connection = self._clone.open_agent()
        wire = Wire(
            self._connection,
            limit_rows=self._limit_rows,
            limit_bytes=self._limit_bytes,
            watch=self._clone.watch,
        )
        self._clone.when_closed(wire.close)
        return wire

    @override
    def _answer(self, query: bytes, deadline: float) -> Answer:
        began = time.monotonic()
        answer = self._ask(query, deadline)
        if answer.lost and answer.timed_out:
            self._clone.give_up(self._connection)
        self._clone.check(time.monotonic() - began)
        if self._clone.overruns:
            self.over = _OVERRUN.format(self._clone.overruns[0])
        return answer

    def _ask(self, query: bytes, deadline: float) -> Answer:
        return self._wire.run(query, deadline)


class ReadSession(SqlSession):
    """A door that only looks, whatever the agent's role may do elsewhere.

    Each statement stands in a read-only transaction of its own, which is rolled
    back. Over the extended protocol a statement cannot bring another one along. One
    that shows nothing, and so would only change what later ones meet (a setting, a
    cursor, the transaction itself), is undone as well, and answered with an error.

    Source:
        Own rule: ARCHITECTURE.md#sql-observations.
    """

    @override
    def _ask(self, query: bytes, deadline: float) -> Answer:
        begun = self._wire.run(b"BEGIN READ ONLY", deadline)
        if begun.error is not None or begun.timed_out:
            return begun
        answer = self._wire.run(query, deadline)
        looks = answer.tag in _LOOKS or answer.tag.startswith(_COUNTED_LOOKS)
        if answer.error is None and not looks:
            answer.error = SqlError(_READ_ONLY, "ERROR", _NO_LOOK.format(answer.tag))
        if not answer.lost and self._wire.transaction is not TransactionStatus.IDLE:
            ended = self._wire.run(b"ROLLBACK", time.monotonic() + self._step_timeout_s)
            answer.lost = ended.lost
        return answer


def _error_kind(answer: Answer) -> ErrorKind:
    if answer.timed_out:
        return ErrorKind.TIMEOUT
    if answer.lost:
        return ErrorKind.SHELL_LOST
    return ErrorKind.TOOL_ERROR if answer.error is not None else ErrorKind.NONE


def _seconds(value: float) -> float:
    if isinstance(value, bool) or not (math.isfinite(value) and value > 0):
        raise ValueError(f"Seconds must be positive and finite, not {value!r}.")
    return float(value)
