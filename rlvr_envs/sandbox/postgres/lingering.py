"""Sessions that have held a write open for too long, by the harness's own clock."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg

_WRITING = """
SELECT pid, backend_xid::text FROM pg_stat_activity
WHERE backend_xid IS NOT NULL AND usename LIKE 'rlvr-%' ORDER BY pid
"""


class Lingering:
    """How long each open write of an agent's has been seen.

    The server's own times are of no use here: an agent's session may live in
    another year than its neighbour.

    Args:
        clock: Seconds, from any start.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen_s: dict[tuple[int, str], float] = {}

    def end(
        self, admin: psycopg.Connection[tuple[object, ...]], *, limit_s: float
    ) -> tuple[int, ...]:
        """Look at the open writes; end the sessions of those seen for too long.

        Args:
            admin: The superuser's.
            limit_s: How long a write may stay open after it was seen first.

        Returns:
            Process ids of the sessions that were ended, sorted.
        """
        now_s = self._clock()
        found = [(int(str(pid)), str(xid)) for pid, xid in admin.execute(_WRITING)]
        self._seen_s = {key: self._seen_s.get(key, now_s) for key in found}
        old = tuple(
            pid for (pid, _), seen_s in self._seen_s.items() if now_s - seen_s > limit_s
        )
        for pid in old:
            admin.execute("SELECT pg_terminate_backend(%s)", [pid])
        return old
