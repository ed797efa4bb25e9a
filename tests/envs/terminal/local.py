"""A sandbox that is none: the host's own processes, in a temporary folder.

Keeps what a session relies on: descriptors in place, exec errors, exit statuses,
groups by birth. It isolates nothing, so tests give it tame commands only.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from typing_extensions import override

from rlvr_envs.errors import SandboxError
from rlvr_envs.records import Snapshot
from rlvr_envs.sandbox.base import (
    Bind,
    Capability,
    Sandbox,
    SandboxSpec,
    SealedLayer,
)
from rlvr_envs.state import Census

_PARKED = 200
_MARK = "RLVR_LOCAL_SANDBOX"


class LocalProcess:
    """A child of the test's own process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None
        self._pidfd = os.pidfd_open(pid)

    def wait(self, timeout_s: float | None = None) -> int | None:
        if self._status is None:
            signal_ready = _readable(self._pidfd, timeout_s)
            if signal_ready:
                code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                self._status = code if code >= 0 else 128 - code
                os.close(self._pidfd)
        return self._status

    def kill(self) -> None:
        if self.wait(0) is None:
            os.kill(self.pid, signal.SIGKILL)


class LocalGroup:
    """Whoever was born since."""

    def __init__(self, sandbox: LocalSandbox) -> None:
        self._sandbox = sandbox
        self._earlier = sandbox.members()
        self._added: set[int] = set()

    def add(self, pid: int) -> None:
        self._added.add(pid)

    def release(self, pid: int) -> None:
        self._added.discard(pid)

    def kill(self, *, spare: int = 0, wake: Callable[[], None] | None = None) -> int:
        if wake is not None:
            wake()
        members = (self._sandbox.members() - self._earlier) | self._added
        for pid in members - {spare}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return len(members - {spare})

    def close(self) -> None:
        self._added.clear()


class LocalSandbox(Sandbox):
    """See the module."""

    def __init__(self) -> None:
        super().__init__(SandboxSpec(Snapshot(())))
        self._mark = f"{_MARK}={uuid.uuid4().hex}"
        self._processes: list[LocalProcess] = []
        self.gone = False
        self.refuse: OSError | None = None
        self.groups: list[LocalGroup] = []

    def members(self) -> set[int]:
        mark = self._mark.encode()
        found = set()
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    if mark in (folder / "environ").read_bytes():
                        found.add(int(folder.name))
                except OSError:
                    continue
        return found

    @classmethod
    @override
    def capabilities(cls) -> frozenset[Capability]:
        return frozenset()

    @classmethod
    @override
    def check(cls) -> None:
        return

    @override
    def start(self) -> None:
        return

    @override
    def spawn(
        self,
        argv: Sequence[str],
        *,
        fds: Sequence[int],
        env: Mapping[str, str],
        cwd: str = "/",
        user: int = 1000,
        tty: bool = False,
    ) -> LocalProcess:
        if self.gone:
            raise SandboxError("The sandbox is gone.")
        if self.refuse is not None:
            raise self.refuse
        _find(argv[0], env["PATH"])
        Path(cwd).stat()
        os.listdir(cwd)  # noqa: PTH208 - as chdir would fail
        parked = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _PARKED) for fd in fds]
        places: list[tuple[int, ...]] = [
            *((os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate(parked)),
            *((os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable(from_fd=len(fds))),
        ]
        setsid = ["setsid", "-c"] if tty else []
        change = ["sh", "-c", 'cd -P "$1" && shift && exec "$@"', "sh", cwd]
        try:
            pid = os.posix_spawnp(
                (setsid or change)[0],
                [*setsid, *change, *argv],
                {**env, _MARK: self._mark.removeprefix(f"{_MARK}=")},
                file_actions=places,
                setsid=not tty,
            )
        finally:
            for fd in parked:
                os.close(fd)
        process = LocalProcess(pid)
        self._processes.append(process)
        return process

    @override
    def step_group(self) -> LocalGroup:
        self.groups.append(LocalGroup(self))
        return self.groups[-1]

    @override
    def destroy(self) -> None:
        while members := self.members():
            for pid in members:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            for process in self._processes:
                process.wait(1.0)
        for process in self._processes:
            process.wait(1.0)

    @override
    def put(self, name: str, data: bytes) -> str:
        _cannot()

    @override
    def listen(self, kind: socket.SocketKind, address: str, port: int) -> socket.socket:
        _cannot()

    @override
    def unrouted(self) -> int:
        _cannot()

    @override
    def set_times(self, wall_s: float) -> None:
        _cannot()

    @override
    def attach(self, bind: Bind) -> None:
        _cannot()

    @override
    def freeze(self) -> None:
        _cannot()

    @override
    def thaw(self) -> None:
        _cannot()

    @override
    def kill(self) -> Census:
        _cannot()

    @override
    def view(self) -> Path:
        _cannot()

    @override
    def upper(self) -> Path:
        _cannot()

    @override
    def commit(self) -> SealedLayer:
        _cannot()

    @override
    def branch(self) -> SealedLayer:
        _cannot()


def _cannot() -> NoReturn:
    raise NotImplementedError("a local sandbox only runs programs")


def _find(name: str, path: str) -> str:
    if "/" not in name:
        found = shutil.which(name, path=path)
        if found is None:
            raise FileNotFoundError(2, os.strerror(2), name)
        return found
    if not Path(name).stat().st_mode & 0o111:
        raise PermissionError(13, os.strerror(13), name)
    return name


def _inheritable(*, from_fd: int) -> list[int]:
    """Return what the test runner would leak into every program."""
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers, not files
        try:
            if int(name) >= from_fd and os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:
            continue
    return found


def _readable(fd: int, timeout_s: float | None) -> bool:

    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))
