"""The wall clock, the randomness and the memory of chosen sessions."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import struct
import subprocess
import tempfile
from functools import cache, lru_cache
from pathlib import Path

import psycopg

from rlvr_envs.errors import MissingRequirement, SandboxError, boundary
from rlvr_envs.sandbox.owners import start_ticks
from rlvr_envs.sandbox.postgres.usage import UsageTable

_SOURCES = tuple(map(Path(__file__).with_name, ("pgclock.c", "pgguard.c")))
_FLAGS = ("-O2", "-shared", "-fPIC")
_LIBRARIES = ("-ldl", "-lpthread")
_CELL = struct.Struct("=QqQQQ16xQ")
_COMPILE_S = 60
_WORD = (1 << 64) - 1

Connection = psycopg.Connection[tuple[object, ...]]

_generations = itertools.count(1)


class ClockTable:
    """A file with a cell for each process id, which the server has mapped.

    It must exist before the server starts; cells of processes that are no sessions
    of a virtual clock stay empty, and take no memory.

    Args:
        path: In a folder that the server reads and does not write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        pids = int(Path("/proc/sys/kernel/pid_max").read_text())
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        os.ftruncate(self._descriptor, (pids + 1) * _CELL.size)

    def set(
        self, session: Session, *, epoch_s: float, seed: int, memory_bytes: int = 0
    ) -> None:
        """Say what time it is for a session from its next statement on.

        Args:
            session: Any of the server's.
            epoch_s: In seconds since 1970; a session's clock never goes back.
            seed: Of its randomness, any integer; the same one goes on with the
                stream where it was.
            memory_bytes: The most that its process may hold; 0 for no limit. The
                first call says.
        """
        generation = next(_generations)
        cell = _CELL.pack(
            generation,
            round(epoch_s * 1_000_000),
            seed & _WORD,
            session.born_ticks,
            memory_bytes,
            generation,
        )
        os.pwrite(self._descriptor, cell, session.pid * _CELL.size)

    def close(self) -> None:
        """Let go of the file; idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class Session:
    """A server's process, which its number alone does not tell.

    Args:
        pid: As the server says it; on this machine.

    Raises:
        ProcessLookupError: If it is gone.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.born_ticks = start_ticks(pid)


class SessionClocks:
    """The sessions of one clone that live by one clock, each with its own stream.

    Args:
        table: ``None`` leaves every session to the server's clock.
        memory_bytes: The most that each may hold; 0 for no limit.
    """

    def __init__(self, table: ClockTable | None, memory_bytes: int = 0) -> None:
        self._table = table
        self._memory_bytes = memory_bytes
        self._sessions: list[tuple[Connection, Session]] = []
        self._epoch_s: float | None = None
        self._seed = 0

    def set(self, epoch_s: float, seed: int | None) -> None:
        """Say what time it is, for those that follow and those that will."""
        self._epoch_s = epoch_s
        self._seed = self._seed if seed is None else seed
        for ordinal, (connection, session) in enumerate(self._sessions):
            if not connection.closed:
                self._tell(ordinal, session)

    def follow(self, connection: Connection) -> None:
        """Add a session, once; the order of calls decides which stream is whose."""
        if self._table is None or any(
            connection is known for known, _ in self._sessions
        ):
            return
        try:
            session = Session(connection.info.backend_pid)
        except ProcessLookupError:
            # It ended just now: whoever uses it will be told.
            return
        self._sessions.append((connection, session))
        if self._epoch_s is not None:
            self._tell(len(self._sessions) - 1, session)

    def _tell(self, ordinal: int, session: Session) -> None:
        if self._table is not None and self._epoch_s is not None:
            seed = _stream(self._seed, ordinal)
            self._table.set(
                session,
                epoch_s=self._epoch_s,
                seed=seed,
                memory_bytes=self._memory_bytes,
            )


class Preload:
    """The library that reads a clock table and tells usage, in a folder that any user may enter.

    The server has it mapped once it runs: then the folder can go.

    Raises:
        MissingRequirement: If there is no compiler.
        SandboxError: If it fails.
    """

    def __init__(self) -> None:
        library = _library()
        with boundary(SandboxError, "laying out the database server's clock"):
            self._folder = Path(tempfile.mkdtemp(prefix="rlvr-clock-"))
            self._folder.chmod(0o755)
            self.path = self._folder / "libpgclock.so"
            self.path.write_bytes(library)
            self.path.chmod(0o755)

    def environment(self, table: ClockTable, usage: UsageTable) -> dict[str, str]:
        """Return what the server's environment needs beside its own."""
        return {
            "LD_PRELOAD": str(self.path),
            "RLVR_CLOCK_TABLE": str(table.path),
            "RLVR_USAGE_TABLE": str(usage.path),
        }

    def close(self) -> None:
        """Remove it; idempotent."""
        shutil.rmtree(self._folder, ignore_errors=True)


@lru_cache(maxsize=1024)
def _stream(seed: int, ordinal: int) -> int:
    digest = hashlib.sha256(f"{seed} {ordinal}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


@cache
def _library() -> bytes:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise MissingRequirement(
            "No C compiler was found: the database server has no virtual clock.",
            remedy="apt-get install gcc libc6-dev.",
        )
    with tempfile.TemporaryDirectory(prefix="rlvr-clock-") as folder:
        target = Path(folder) / "libpgclock.so"
        argv = [compiler, *_FLAGS, "-o", str(target), *map(str, _SOURCES), *_LIBRARIES]
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_COMPILE_S, check=False
        )
        if done.returncode:
            raise SandboxError(f"{compiler} failed on libpgclock: {done.stderr[-500:]}")
        return target.read_bytes()
