"""Other parties, who write while the agent works; the harness plays them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

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

        Args:
            connection: Of a role that is neither the agent's nor a superuser's.
            turn: Of the request that comes.
            writes: Whether that writes.
        """
        due = [row for row in self._rows if _due(row["before"], turn, writes=writes)]
        for row in due:
            with contextlib.suppress(errors.LockNotAvailable):
                with connection.transaction():
                    for statement in row["statements"]:
                        connection.execute(statement.encode())
                self._rows.remove(row)


def _due(before: str, turn: int, *, writes: bool) -> bool:
    if before == FIRST_WRITE:
        return writes
    return turn >= int(before.partition(":")[2])
