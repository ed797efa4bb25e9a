"""Other parties, who write while the agent works; the harness plays them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import errors

from rlvr_envs.sandbox.postgres.cluster import Connection

FIRST_WRITE = "first_write"
_WHEN = re.compile(r"first_write|turn:[1-9]\d*")


class Rivals:
    """What others write, and when.

    Args:
        rows: ``before`` (``first_write``, or ``turn:<n>``: before the first request
            in or after that turn) and ``statements`` (of qualified names).

    Raises:
        ValueError: If a row is wrong.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows = list(rows)
        for row in self._rows:
            if row.keys() != {"before", "statements"} or not _WHEN.fullmatch(
                row["before"]
            ):
                raise ValueError(f"A rival has statements and a time before: {row}.")

    def act(self, connection: Connection, turn: int, *, writes: bool) -> None:
        """Let those write whose time has come; who meets a lock comes again.

        One whose write does not fit what the agent made of the data gives up.

        Args:
            connection: Of a role that is neither the agent's nor a superuser's.
            turn: Of the request that comes.
            writes: Whether that writes.

        Raises:
            psycopg.Error: If the connection is lost.
        """
        due = [row for row in self._rows if _due(row["before"], turn, writes=writes)]
        for row in due:
            if _write(connection, row["statements"]):
                self._rows.remove(row)


def _write(connection: Connection, statements: Sequence[str]) -> bool:
    """Return whether a rival is done: it wrote, or never will."""
    try:
        with connection.transaction():
            for statement in statements:
                connection.execute(statement.encode())
    except errors.LockNotAvailable:
        return False
    except psycopg.Error:
        if connection.closed:
            raise
    return True


def _due(before: str, turn: int, *, writes: bool) -> bool:
    if before == FIRST_WRITE:
        return writes
    return turn >= int(before.partition(":")[2])
