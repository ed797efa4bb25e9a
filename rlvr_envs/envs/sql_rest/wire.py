"""One statement on one connection: streamed, bounded, and ended by a deadline."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import psycopg
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from rlvr_envs.envs.sql_rest.valve import Valve

Cells = tuple[str | None, ...]

_GRACE_S = 2.0
_WATCHED_S = 0.25
_WATCH_S = 0.1
_MAX_NOTICES = 20
_NO_COPY = b"this door takes no data for COPY FROM STDIN; use INSERT"
_ROWS = frozenset({ExecStatus.SINGLE_TUPLE, ExecStatus.TUPLES_OK})


@dataclass(frozen=True, slots=True)
class SqlError:
    """What the server said was wrong.

    Attributes:
        state: Five characters, as the SQL standard and PostgreSQL define them.
        position: Number of the character in the statement, from 1; 0 if none.
    """

    state: str
    severity: str
    message: str
    detail: str = ""
    hint: str = ""
    position: int = 0


@dataclass(slots=True)
class Answer:
    """What came back for a statement.

    Attributes:
        rows: The first ones, up to the limits; `rows_total` counts all.
        copied: What ``COPY TO STDOUT`` gave, up to the limit.
        bytes_total: Of all values, kept or not.
        bytes_kept: Of those that were kept.
        tag: ``UPDATE 3`` and the like; empty for an empty statement.
        timed_out: Whether the deadline ended it.
        lost: Whether the connection did not survive.
    """

    columns: tuple[str, ...] = ()
    rows: list[Cells] = field(default_factory=list)
    rows_total: int = 0
    copied: bytearray = field(default_factory=bytearray)
    bytes_total: int = 0
    bytes_kept: int = 0
    tag: str = ""
    notices: list[str] = field(default_factory=list)
    error: SqlError | None = None
    timed_out: bool = False
    lost: bool = False


_LOST = SqlError("08006", "FATAL", "the connection was lost")


class _TimeUp(Exception):
    """The deadline passed while the server was busy."""


class Wire:
    """A connection of the agent's role, driven statement by statement.

    Args:
        connection: In autocommit mode; it belongs to the clone.
        limit_rows: Rows kept of one answer.
        limit_bytes: Bytes of values kept of one answer.
        watch: Asked from time to time while a statement takes long whether it may go
            on; it ends the session where not. ``None`` for nobody.
    """

    def __init__(
        self,
        connection: psycopg.Connection[tuple[object, ...]],
        *,
        limit_rows: int,
        limit_bytes: int,
        watch: Callable[[], bool] | None = None,
    ) -> None:
        self._connection = connection
        self._watch = watch
        self._look_at = math.inf
        self._pgconn = connection.pgconn
        self._limit_rows = limit_rows
        self._limit_bytes = limit_bytes
        self._notices: list[str] = []
        fits = Valve.fits(self._pgconn)
        self._valve = Valve(self._pgconn, limit_bytes) if fits else None
        # In place of the connection's own, which knows no Python codec for some of the
        # encodings that an agent can choose.
        self._pgconn.notice_handler = self._notice

    def close(self) -> None:
        """Let go of what the connection's messages pass through; idempotent."""
        if self._valve is not None:
            self._valve.close()

    @property
    def transaction(self) -> TransactionStatus:
        """Whether a transaction is open, or failed and waits for its end."""
        return TransactionStatus(self._pgconn.transaction_status)

    def run(self, statement: bytes, deadline: float) -> Answer:
        """Send a statement over the extended protocol, which takes but one.

        Rows beyond the limits are read and dropped: stopping the server instead
        would undo what the statement writes.

        Args:
            statement: Without NULs.
            deadline: By `time.monotonic`; then the statement is cancelled, and the
                connection given up if even that takes too long.
        """
        answer = Answer()
        self._notices = []
        if self._valve is not None:
            self._valve.filter.begin()
        self._look_at = time.monotonic() + _WATCHED_S if self._watch else math.inf
        try:
            self._ask(statement, deadline)
            self._read(answer, deadline)
        except _TimeUp:
            answer.timed_out = True
            self._cancel(answer)
        except psycopg.Error:
            answer.error = answer.error or _LOST
        answer.notices = self._notices
        answer.lost = answer.lost or self._pgconn.status == ConnStatus.BAD
        if answer.lost and not answer.tag:
            answer.error = answer.error or _LOST
        return answer

    def _ask(self, statement: bytes, deadline: float) -> None:
        self._pgconn.send_query_params(statement, None)
        self._pgconn.set_single_row_mode()
        while self._pgconn.flush():
            self._wait(select.POLLIN | select.POLLOUT, deadline)
            self._pgconn.consume_input()
        self._pump()

    def _read(self, answer: Answer, deadline: float) -> None:
        for result in self._results(deadline):
            status = ExecStatus(result.status)
            if status in _ROWS:
                self._take_row(answer, result)
            elif status == ExecStatus.COPY_IN:
                self._pgconn.put_copy_end(_NO_COPY)
                self._flush(deadline)
            elif status == ExecStatus.COPY_OUT:
                self._take_copy(answer, deadline)
            elif status == ExecStatus.FATAL_ERROR:
                answer.error = _told(result)
            if status != ExecStatus.SINGLE_TUPLE:
                answer.tag = _text(result.command_status or b"")

    def _results(self, deadline: float) -> Iterator[PGresult]:
        while True:
            while self._pgconn.is_busy():
                self._wait(select.POLLIN, deadline)
                self._pgconn.consume_input()
            result = self._pgconn.get_result()
            if result is None:
                return
            yield result

    def _take_row(self, answer: Answer, result: PGresult) -> None:
        if not answer.columns:
            answer.columns = tuple(
                _text(result.fname(i) or b"") for i in range(result.nfields)
            )
        for row in range(result.ntuples):
            values = [result.get_value(row, i) for i in range(result.nfields)]
            size = sum(len(value) for value in values if value is not None)
            answer.rows_total += 1
            size += self._omitted(answer.rows_total)
            answer.bytes_total += size
            if self._has_room(answer, size):
                answer.bytes_kept += size
                answer.rows.append(
                    tuple(None if v is None else _text(v) for v in values)
                )

    def _has_room(self, answer: Answer, size: int) -> bool:
        # Nothing after the first row that is left out, or the rows would have holes.
        whole = len(answer.rows) == answer.rows_total - 1
        fits = answer.bytes_kept + size <= self._limit_bytes
        return whole and fits and len(answer.rows) < self._limit_rows

    def _take_copy(self, answer: Answer, deadline: float) -> None:
        while True:
            size, data = self._pgconn.get_copy_data(1)
            if size == -1:
                break
            if size == 0:
                self._wait(select.POLLIN, deadline)
                self._pgconn.consume_input()
                continue
            room = self._limit_bytes - len(answer.copied)
            answer.copied += bytes(data)[: max(room, 0)]
            answer.bytes_total += size
            answer.bytes_kept = len(answer.copied)
        if self._valve is not None:
            answer.bytes_total += self._valve.filter.copy_bytes

    def _cancel(self, answer: Answer) -> None:
        deadline = time.monotonic() + _GRACE_S
        try:
            self._connection.cancel_safe(timeout=_GRACE_S)
            self._read(answer, deadline)
        except (_TimeUp, psycopg.Error):
            answer.lost = True

    def _flush(self, deadline: float) -> None:
        while self._pgconn.flush():
            self._wait(select.POLLIN | select.POLLOUT, deadline)

    def _wait(self, events: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._pgconn.socket, events)
        if self._valve is not None:
            self._valve.watch(poll)
        while True:
            left_s = min(deadline, self._look_at) - time.monotonic()
            ready = poll.poll(max(0.0, left_s) * 1000)
            now = time.monotonic()
            if now > deadline or not (ready or now < deadline):
                raise _TimeUp
            if now >= self._look_at:
                self._look()
            if ready:
                self._pump()
                return

    def _look(self) -> None:
        """Ask whether the statement may go on; else its session ends at once."""
        may = self._watch is None or self._watch()
        self._look_at = time.monotonic() + _WATCH_S if may else math.inf

    def _pump(self) -> None:
        if self._valve is not None:
            self._valve.pump()

    def _omitted(self, row: int) -> int:
        """Return the size of a row that was too large to be let through, or 0."""
        return 0 if self._valve is None else self._valve.filter.omitted.get(row, 0)

    def _notice(self, result: PGresult) -> None:
        if len(self._notices) < _MAX_NOTICES:
            told = _told(result)
            self._notices.append(f"{told.severity}: {told.message}")


def _text(value: bytes | memoryview | bytearray) -> str:
    return bytes(value).decode("utf-8", "backslashreplace")


def _told(result: PGresult) -> SqlError:
    def part(name: DiagnosticField) -> str:
        return _text(result.error_field(name) or b"")

    return SqlError(
        part(DiagnosticField.SQLSTATE) or "XX000",
        part(DiagnosticField.SEVERITY_NONLOCALIZED) or "ERROR",
        part(DiagnosticField.MESSAGE_PRIMARY) or _LOST.message,
        part(DiagnosticField.MESSAGE_DETAIL),
        part(DiagnosticField.MESSAGE_HINT),
        int(part(DiagnosticField.STATEMENT_POSITION) or 0),
    )
