"""What one episode may take of a server that it shares with others: log and disk."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg

from rlvr_envs.sandbox.postgres.roles import Access
from rlvr_envs.sandbox.postgres.usage import UsageTable

Connection = psycopg.Connection[tuple[object, ...]]

OUTLIVED = "a session did not end when it was told to"
"""Why an episode is over whose statement heeds nobody."""

_MIB = 1 << 20
_SLOW_S = 0.05
_FILLED = 8 * _MIB


class Bounds:
    """The use that one clone makes of its server, held against its limits.

    Args:
        admin: The superuser's, in the clone's database.
        access: Names the limits.
        base_bytes: Size of the database as it was cloned.
        usage: What processes wrote of the log; ``None`` leaves that uncounted.
        folder: Where the server's files are; ``None`` if they are out of reach.
    """

    def __init__(
        self,
        admin: Connection,
        access: Access,
        *,
        base_bytes: int,
        usage: UsageTable | None,
        folder: Path | None,
    ) -> None:
        self._admin = admin
        self._access = access
        self._most_bytes = base_bytes + access.disk_mib * _MIB
        self._usage = usage
        self._folder = folder
        self._free_bytes = self._free()
        self._pids: set[int] = set()
        self._ended_bytes = 0

    def follow(self, pid: int) -> None:
        """Count what a session writes."""
        self._pids.add(pid)

    def leave(self, pid: int) -> None:
        """Keep what a session wrote that just ended; its number may be another's soon."""
        if pid in self._pids:
            self._pids.remove(pid)
            self._ended_bytes += self._written(pid)

    def after(self, took_s: float) -> str:
        """Return what limit a statement that is over went beyond; empty for none.

        The server is asked only where the statement was slow or the disk filled.

        Raises:
            psycopg.Error: If the server is gone.
        """
        told = self.log()
        if told or (took_s < _SLOW_S and not self._has_filled()):
            return told
        return self.disk()

    def log(self) -> str:
        """Return whether too much of the log was written; costs a few microseconds."""
        written = self._ended_bytes + sum(map(self._written, self._pids))
        limit = self._access.log_mib
        if written <= limit * _MIB:
            return ""
        return f"more than {limit} MiB of the server's log were written"

    def disk(self) -> str:
        """Return whether the database grew too much, temporary tables included.

        Raises:
            psycopg.Error: If the server is gone.
        """
        self._free_bytes = self._free()
        if database_bytes(self._admin) <= self._most_bytes:
            return ""
        return f"the database grew by more than {self._access.disk_mib} MiB"

    def _written(self, pid: int) -> int:
        return self._usage.written_bytes(pid) if self._usage is not None else 0

    def _has_filled(self) -> bool:
        """Whether anybody took some of the disk since it was asked last."""
        free = self._free()
        self._free_bytes = max(self._free_bytes, free)
        return self._free_bytes - free >= _FILLED

    def _free(self) -> int:
        if self._folder is None:
            return 0
        try:
            found = os.statvfs(self._folder)
        except OSError:
            # The server is gone: whoever asks it will be told.
            return 0
        return found.f_bfree * found.f_frsize


def database_bytes(admin: Connection) -> int:
    """Return the size of the database that a connection is in.

    Raises:
        psycopg.Error: If the server is gone.
    """
    row = admin.execute("SELECT pg_database_size(current_database())").fetchone()
    return int(str(row[0])) if row else 0
