"""What an agent left running or open for too long, by the harness's own clock."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg

from rlvr_envs.sandbox.postgres.prepared import Prepared, prepared

_WRITING = """
SELECT pid, backend_xid::text, datname FROM pg_stat_activity
WHERE backend_xid IS NOT NULL AND usename LIKE 'rlvr-%' ORDER BY pid
"""


class Lingering:
    """How long each open write of an agent's has been seen, and what cannot be ended.

    The server's own times are of no use here: an agent's session may live in
    another year than its neighbour.

    Args:
        clock: Seconds, from any start.
        undo: Rolls a prepared transaction back, wherever it is.

    Attributes:
        left: Databases with a session that was told to end and has not, in the order
            in which they were left: a statement that looks for no interrupts.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        undo: Callable[[Prepared], None],
    ) -> None:
        self._clock = clock
        self._undo = undo
        self._seen_s: dict[tuple[int, str, str] | Prepared, float] = {}
        self._told: set[tuple[int, str, str]] = set()
        self._left: dict[str, None] = {}

    @property
    def left(self) -> tuple[str, ...]:  # noqa: D102 - see the class
        return tuple(self._left)

    def leave(self, database: str) -> None:
        """Note that a session in a database heeds nobody; once."""
        self._left[database] = None

    def forget(self, database: str) -> None:
        """Note that a database is gone."""
        self._left.pop(database, None)

    def end(
        self, admin: psycopg.Connection[tuple[object, ...]], *, limit_s: float
    ) -> tuple[int, ...]:
        """Look at the open writes; end those seen for too long.

        Args:
            admin: The superuser's.
            limit_s: How long a write may stay open after it was seen first.

        Returns:
            Process ids of the sessions that were ended, sorted.
        """
        now_s = self._clock()
        found = [
            (int(str(pid)), str(xid), str(database))
            for pid, xid, database in admin.execute(_WRITING)
        ]
        for _, _, database in self._told.intersection(found):
            self.leave(database)
        open_now: list[tuple[int, str, str] | Prepared] = [*found, *prepared(admin)]
        self._seen_s = {key: self._seen_s.get(key, now_s) for key in open_now}
        old = [key for key, seen_s in self._seen_s.items() if now_s - seen_s > limit_s]
        ended = []
        for key in old:
            if isinstance(key, Prepared):
                self._undo(key)
            else:
                admin.execute("SELECT pg_terminate_backend(%s)", [key[0]])
                self._told.add(key)
                ended.append(key[0])
        self._told.intersection_update(found)
        return tuple(ended)
