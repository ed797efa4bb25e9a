"""One statement on one connection: bounded in time, rows and bytes."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlvr_envs.sandbox.sqlite.inside.authority import Authority

_STEPS = 1_000
_LENGTH_MAX = 1 << 24
_COMMENTS = re.compile(r"\s+|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$)", re.DOTALL)
_WORDS = re.compile(r"[A-Za-z]+")
_PASSED = frozenset({"TEMP", "TEMPORARY", "UNIQUE"})
_COUNTED = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE"})
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _LENGTH_MAX,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
# The engine's names to the states of the SQL standard and PostgreSQL.
_STATES = {
    "SQLITE_CONSTRAINT_UNIQUE": "23505",
    "SQLITE_CONSTRAINT_PRIMARYKEY": "23505",
    "SQLITE_CONSTRAINT_ROWID": "23505",
    "SQLITE_CONSTRAINT_NOTNULL": "23502",
    "SQLITE_CONSTRAINT_FOREIGNKEY": "23503",
    "SQLITE_CONSTRAINT_CHECK": "23514",
    "SQLITE_CONSTRAINT_DATATYPE": "22P02",
    "SQLITE_CONSTRAINT_TRIGGER": "P0001",
    "SQLITE_MISMATCH": "42804",
    "SQLITE_AUTH": "42501",
    "SQLITE_INTERRUPT": "57014",
    "SQLITE_BUSY": "55P03",
    "SQLITE_BUSY_SNAPSHOT": "40001",
    "SQLITE_LOCKED": "55P03",
    "SQLITE_READONLY": "25006",
    "SQLITE_NOMEM": "53200",
    "SQLITE_FULL": "53100",
    "SQLITE_IOERR_WRITE": "53100",
    "SQLITE_TOOBIG": "54000",
}
_MESSAGES = (
    (re.compile(r"^no such table"), "42P01"),
    (re.compile(r"^no such column|has no column named"), "42703"),
    (re.compile(r"^no such function"), "42883"),
    (re.compile(r"^ambiguous column name"), "42702"),
    (re.compile(r"already exists$"), "42P07"),
    (re.compile(r"readonly database|may not be (modified|dropped|altered)"), "42501"),
    (re.compile(r"^cannot store \w+ value in"), "22P02"),
    (re.compile(r"cannot start a transaction within"), "25001"),
    (re.compile(r"no transaction is active"), "25P01"),
    (re.compile(r"one statement at a time|syntax error|incomplete input"), "42601"),
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one statement may take.

    Attributes:
        seconds: Wall time.
        rows: Shown of one answer.
        size: Bytes of values shown of one answer.
    """

    seconds: float
    rows: int
    size: int


class Door:
    """A connection that runs statements of an agent's, one at a time.

    Args:
        connection: In autocommit mode; nobody else uses it.
        authority: What it may do; installed here.
    """

    def __init__(self, connection: sqlite3.Connection, authority: Authority) -> None:
        self._connection = connection
        self._authority = authority
        for name, value in _LIMITS.items():
            connection.setlimit(name, value)
        connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
        connection.set_authorizer(authority)

    def run(self, statement: str, bounds: Bounds) -> Mapping[str, Any]:
        """Run a statement; what it did wrong is part of the answer.

        Rows beyond the bounds are read and dropped.
        """
        answer: dict[str, Any] = {
            "columns": [],
            "rows": [],
            "rows_total": 0,
            "bytes_total": 0,
            "bytes_kept": 0,
            "tag": "",
            "error": None,
            "timed_out": False,
        }
        deadline = time.monotonic() + bounds.seconds
        self._authority.refused = ""
        self._connection.set_progress_handler(
            lambda: time.monotonic() > deadline, _STEPS
        )
        try:
            cursor = self._connection.execute(statement)
            self._take(cursor, answer, bounds)
            answer["tag"] = _tag(statement, cursor, answer["rows_total"])
        except (sqlite3.Error, sqlite3.Warning) as error:
            answer["error"] = self._told(error)
            answer["timed_out"] = answer["error"]["state"] == "57014"
        finally:
            self._connection.set_progress_handler(None, 0)
        answer["open"] = self._connection.in_transaction
        return answer

    def _take(
        self, cursor: sqlite3.Cursor, answer: dict[str, Any], bounds: Bounds
    ) -> None:
        if cursor.description is None:
            return
        answer["columns"] = [str(column[0]) for column in cursor.description]
        rows = answer["rows"]
        for values in cursor:
            cells = [cell(value) for value in values]
            size = sum(len(text.encode()) for text in cells if text is not None)
            # Nothing after the first row that is left out: no holes.
            whole = len(rows) == answer["rows_total"] and len(rows) < bounds.rows
            answer["rows_total"] += 1
            answer["bytes_total"] += size
            if whole and answer["bytes_kept"] + size <= bounds.size:
                answer["bytes_kept"] += size
                rows.append(cells)

    def _told(self, error: Exception) -> Mapping[str, str]:
        if self._authority.refused:
            message = f"permission denied {self._authority.refused}"
            return {"state": "42501", "message": message}
        return {"state": state_of(error), "message": str(error)}


def cell(value: Any) -> str | None:
    """Return a value as text; a blob as the engine writes it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return repr(value) if isinstance(value, float) else str(value)


def state_of(error: Exception) -> str:
    """Return the five characters that name what was wrong."""
    name = getattr(error, "sqlite_errorname", "")
    if name in _STATES:
        return _STATES[name]
    text = str(error)
    found = (state for says, state in _MESSAGES if says.search(text))
    return next(found, "HY000")


def _tag(statement: str, cursor: sqlite3.Cursor, rows: int) -> str:
    at = 0
    while (space := _COMMENTS.match(statement, at)) and space.end() > at:
        at = space.end()
    found = [word.upper() for word in _WORDS.findall(statement[at : at + 60])]
    words = [word for word in found if word not in _PASSED][:2]
    if not words:
        return ""
    if cursor.rowcount >= 0 and (words[0] in _COUNTED or words[0] == "WITH"):
        return f"{words[0]} {cursor.rowcount}"
    if cursor.description is not None:
        return f"SELECT {rows}"
    return " ".join(words) if words[0] in ("CREATE", "DROP", "ALTER") else words[0]
