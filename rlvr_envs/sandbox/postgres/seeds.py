"""What a database starts from: one SQL script, and the digest of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from rlvr_envs.errors import SnapshotError
from rlvr_envs.records import digest_of

_META = re.compile(r"^\\(?:c|connect|restrict|unrestrict)\b.*$", re.MULTILINE)
_DATABASE = re.compile(
    r"^[ \t]*(?:CREATE|DROP)\s+DATABASE\b[^;\n]*;", re.MULTILINE | re.IGNORECASE
)
_COPY = re.compile(
    r"^(COPY\s[^;]*?\sFROM\s+stdin[^;\n]*);[ \t]*\n(.*?)^\\\.[ \t]*$",
    re.MULTILINE | re.IGNORECASE | re.DOTALL,
)
_TOLD_CHARS = 400

EPOCH_S = 1_767_225_600
"""When a script runs that names no other time: the first moment of 2026, UTC."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A database as the SQL that makes it.

    Attributes:
        script: Plain SQL, or a plain dump made with ``--no-owner --no-acl``. What
            names a database (``CREATE DATABASE``, a connect command at the start
            of a line) is left out: the template's name is its digest.
        epoch_s: What time it is while it runs, in whole seconds since 1970; a
            server that has no virtual clock takes its own.
        given: Tables, ``schema.name``, that agents with the right to define own.
    """

    script: str
    epoch_s: int = EPOCH_S
    given: tuple[str, ...] = ()

    @classmethod
    def from_file(cls, path: Path) -> Seed:
        """Read a script.

        Raises:
            SnapshotError: If it cannot be read or is not UTF-8.
        """
        try:
            return cls(path.read_text("utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            raise SnapshotError(f"The seed {path} cannot be read: {error}.") from error

    @classmethod
    def generated(cls, make: Callable[[int], str], seed: int) -> Seed:
        """Let a generator write the script; a seed must always give the same one."""
        return cls(make(seed))

    @property
    def digest(self) -> str:
        """``sha256:...`` of the script, wherever it came from."""
        parts = ["postgres seed", self.script, str(self.epoch_s), *self.given]
        return digest_of(parts)

    def load(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        """Run the script.

        Raises:
            SnapshotError: If the server refuses a statement; names it and its line.
        """
        for statement, data in self._parts():
            try:
                _run(connection, statement, data)
            except psycopg.Error as error:
                raise SnapshotError(
                    f"The seed's SQL fails: {_told(error, statement)}"
                ) from error

    def _parts(self) -> Iterator[tuple[str, str | None]]:
        """Yield SQL without data and, apart, each ``COPY`` with its rows."""
        end = 0
        for match in _COPY.finditer(self.script):
            yield _without_database(self.script[end : match.start()]), None
            yield match[1], match[2]
            end = match.end()
        yield _without_database(self.script[end:]), None


def _without_database(statements: str) -> str:
    return _DATABASE.sub("", _META.sub("", statements))


def _run(
    connection: psycopg.Connection[tuple[object, ...]], statement: str, data: str | None
) -> None:
    query = statement.encode()
    if data is not None:
        with connection.cursor().copy(query) as copy:
            copy.write(data.encode())
    elif statement.strip():
        # Without parameters the simple protocol runs many statements at once.
        connection.execute(query, prepare=False)


def _told(error: psycopg.Error, statement: str) -> str:
    position = error.diag.statement_position
    text = f"{error.sqlstate}: {error.diag.message_primary or error}"[:_TOLD_CHARS]
    if position is None:
        return f"{text}."
    line = statement.count("\n", 0, int(position)) + 1
    return f"{text} (line {line} of its part of the script)."
