"""Processes that open databases, so that this one never does."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlvr_envs.errors import SandboxError, boundary
from rlvr_envs.sandbox.sqlite.inside.serving import receive, send

_NOBODY = 65_534
_START_S = 30.0
_DIE_S = 30.0
_PACKAGE = Path(__file__).parents[2]
# The package's own first file would import what the process has no use for.
_BOOT = """
import sys, types
parts = "rlvr_envs", "sandbox", "sqlite", "inside"
for depth in range(1, len(parts) + 1):
    module = types.ModuleType(".".join(parts[:depth]))
    module.__path__ = ["/".join([sys.argv[3], *parts[1:depth]])]
    sys.modules[module.__name__] = module
from rlvr_envs.sandbox.sqlite.inside.forking import main
main()
"""


class WorkerGone(Exception):
    """A worker died, or took too long and was killed.

    Attributes:
        late: Whether it took too long.
    """

    def __init__(self, *, late: bool) -> None:
        super().__init__("late" if late else "dead")
        self.late = late


class Worker:
    """A process that answers questions about one database; see `inside.serving`.

    Args:
        process: Its descriptor.
        channel: To talk to it.
    """

    def __init__(self, process: int, channel: socket.socket) -> None:
        self._process = process
        self._channel = channel

    def ask(self, message: Mapping[str, Any], *, timeout_s: float) -> Mapping[str, Any]:
        """Send a message and wait for the answer.

        Raises:
            WorkerGone: If none came; the worker is dead then.
        """
        self._channel.settimeout(timeout_s)
        try:
            send(self._channel, message)
            answer = receive(self._channel)
        except TimeoutError:
            self.kill()
            raise WorkerGone(late=True) from None
        except (OSError, ValueError):
            self.kill()
            raise WorkerGone(late=False) from None
        if not isinstance(answer, dict):
            self.kill()
            raise WorkerGone(late=False)
        return answer

    def kill(self) -> None:
        """End it and see it dead; idempotent.

        Raises:
            SandboxError: If it outlives the deadline.
        """
        process, self._process = self._process, -1
        if process < 0:
            return
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        poll = select.poll()
        poll.register(process, select.POLLIN)
        dead = poll.poll(_DIE_S * 1000)
        os.close(process)
        if not dead:
            raise SandboxError("A database's process outlives its end.")


class Nursery:
    """The process that forks workers; it ends with this one, whatever happens.

    Args:
        folder: Removed by it in the end.

    Attributes:
        user: Uid and gid of workers; ``None`` for this process's own.

    Raises:
        SandboxError: If it does not start.
    """

    def __init__(self, folder: Path) -> None:
        self.user = _NOBODY if os.geteuid() == 0 else None
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with boundary(SandboxError, "starting the process that opens databases"):
            pid = os.posix_spawn(
                sys.executable,
                [
                    *(sys.executable, "-I", "-S", "-c", _BOOT),
                    *(str(-1 if self.user is None else self.user), str(folder)),
                    *(str(_PACKAGE), str(os.getpid())),
                ],
                {"LC_ALL": "C.UTF-8", "TZ": "UTC"},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
                ],
                setsigmask=[],
                setsigdef=[signal.SIGPIPE],
            )
            self._process = os.pidfd_open(pid)
            theirs.close()
            self._control.settimeout(_START_S)
            if self._control.recv(16) != b"ready":
                raise SandboxError("The process that opens databases did not start.")

    @property
    def alive(self) -> bool:
        """Whether it is there to be asked."""
        poll = select.poll()
        if self._process >= 0:
            poll.register(self._process, select.POLLIN)
        return self._process >= 0 and not poll.poll(0)

    def worker(self) -> Worker:
        """Fork one.

        Raises:
            SandboxError: If that fails.
        """
        ours, theirs = socket.socketpair()
        try:
            with self._lock, boundary(SandboxError, "starting a database's process"):
                with theirs:
                    socket.send_fds(self._control, [b"fork"], [theirs.fileno()])
                _, descriptors, _, _ = socket.recv_fds(self._control, 16, 1)
                (process,) = descriptors
        except SandboxError:
            ours.close()
            raise
        return Worker(process, ours)

    def close(self) -> None:
        """End it and all its workers; its folder goes with it. Idempotent."""
        process, self._process = self._process, -1
        if process < 0:
            return
        self._control.close()
        poll = select.poll()
        poll.register(process, select.POLLIN)
        if not poll.poll(_DIE_S * 1000):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        os.waitid(os.P_PIDFD, process, os.WEXITED)
        os.close(process)
