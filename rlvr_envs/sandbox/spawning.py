"""The host's end of an init's spawn socket; whatever started that init.

Every request carries a socket pair's end of its own, on which all its answers
come: no two requests share a stream, and any thread may make one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.idmaps import IDS
from rlvr_envs.sandbox.wire import Answer, Packet, Refused, receive

ANSWER_S = 20.0
"""How long init may take to answer, on a machine under load."""

_GONE = "The sandbox is gone."
_LOST_STATUS = 128 + signal.SIGKILL


class SpawnedProcess:
    """A process that a sandbox's init started and will report the end of.

    Keeps the protocol `rlvr_envs.sandbox.base.Process`.
    """

    def __init__(self, pid: int, line: _Line) -> None:
        self._pid = pid
        self._line = line
        self._status: int | None = None
        self._waiters = 0
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """Process id in the host's namespace."""
        return self._pid

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Return its exit status (128 + signal if killed); None if it still runs.

        137 if the whole sandbox went away under it.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._enter():
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = False
            try:
                ready = self._line.wait(left_s)
            finally:
                self._leave(ready=ready)
            if not ready:
                break
        return self._status

    def kill(self) -> None:
        """Send SIGKILL; a process that is gone is no error."""
        if self.wait(0) is not None:
            return
        try:
            os.kill(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def abandon(self) -> None:
        """Let go of the line; a process that has not ended counts as killed."""
        with self._lock:
            if self._status is None:
                self._status = _LOST_STATUS
                self._settle()

    def _enter(self) -> bool:
        """Begin to wait, unless the status is known."""
        with self._lock:
            self._waiters += self._status is None
            return self._status is None

    def _leave(self, *, ready: bool) -> None:
        with self._lock:
            self._waiters -= 1
            if ready and self._status is None:
                self._read_status()
            if self._status is not None:
                self._settle()

    def _read_status(self) -> None:
        answer = self._line.take()
        if answer is None:
            self._status = _LOST_STATUS
        elif answer.fields[0] == "exit":
            self._status = int(answer.fields[1])

    def _settle(self) -> None:
        """Wake whoever waits; the last one closes the line that they wait on."""
        self._line.wake()
        if self._waiters == 0:
            self._line.close()


class _Line:
    """The report socket of one request."""

    def __init__(self, init: int) -> None:
        self._socket, self._far = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._init = init

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._far.close()
        if error is not None:
            self._socket.close()

    @property
    def far(self) -> int:
        """The end that init gets."""
        return self._far.fileno()

    def wait(self, timeout_s: float | None) -> bool:
        """Whether an answer, or init's end, has come within the time."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._init, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))

    def take(self) -> Answer | None:
        """Return an answer that is there; None if none will come."""
        try:
            return receive(self._socket, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in (errno.EBADF, errno.ECONNRESET):
                return None
            raise

    def answer(self, deadline: float) -> Answer:
        """Wait for the next answer.

        Raises:
            SandboxError: If init ended.
            TimeoutError: If none came in time.
        """
        if not self.wait(max(0.0, deadline - time.monotonic())):
            raise TimeoutError(errno.ETIMEDOUT, "the sandbox did not start it in time")
        answer = self.take()
        if answer is None:
            raise SandboxError(_GONE)
        return answer

    def wake(self) -> None:
        """End every wait: closing alone would leave a waiter asleep."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the host's end; idempotent."""
        self._socket.close()


class InitChannel:
    """Requests to one init.

    Args:
        channel: The host's end of the spawn socket; closed by `close`.
        init: A pidfd of init, by which its end is seen; stays the caller's.
    """

    def __init__(self, channel: socket.socket, init: int) -> None:
        self._channel = channel
        self._channel.settimeout(ANSWER_S)
        self._init = init
        self._processes: list[SpawnedProcess] = []
        self._lock = threading.Lock()

    def spawn(
        self,
        argv: Sequence[str],
        *,
        fds: Sequence[int],
        env: Mapping[str, str],
        cwd: str = "/",
        user: int = 1000,
        tty: bool = False,
    ) -> SpawnedProcess:
        """Start a process; see `rlvr_envs.sandbox.base.Sandbox.spawn`."""
        if not argv:
            raise ValueError("An argument list names a program at least.")
        if not 0 <= user < IDS:
            raise ValueError(f"A user inside is 0 to {IDS - 1}, not {user}.")
        packet = Packet()
        packet.add("spawn", user, int(tty), cwd, len(argv), *argv)
        packet.add(*(f"{name}={value}" for name, value in env.items()))
        deadline = time.monotonic() + ANSWER_S
        with self._ask(packet, fds) as line:
            pid = 0
            while (answer := line.answer(deadline)).fields[0] != "started":
                pid = answer.pid
                _raise_refusal(answer, argv[0])
            process = SpawnedProcess(pid, line)
        with self._lock:
            self._processes = [p for p in self._processes if p.wait(0) is None]
            self._processes.append(process)
        return process

    def listen(self, kind: socket.SocketKind, address: str, port: int) -> socket.socket:
        """Open a socket in the sandbox; see `rlvr_envs.sandbox.base.Sandbox.listen`."""
        packet = Packet()
        packet.add("listen", int(kind), address, port)
        return socket.socket(fileno=self._open(packet)[0])

    def terminal(self) -> tuple[int, int]:
        """Open a pseudo-terminal of the sandbox's own; return both ends."""
        packet = Packet()
        packet.add("terminal")
        near, far = self._open(packet)
        return near, far

    def own_pids(self) -> frozenset[int]:
        """Return the pids of processes that were spawned and have not ended."""
        with self._lock:
            return frozenset(p.pid for p in self._processes if p.wait(0) is None)

    def close(self) -> None:
        """Close the channel; every process without a status counts as killed."""
        self._channel.close()
        with self._lock:
            for process in self._processes:
                process.wait(0)
                process.abandon()
            self._processes = []

    def _open(self, packet: Packet) -> Sequence[int]:
        with self._ask(packet, ()) as line:
            fds = line.answer(time.monotonic() + ANSWER_S).checked().fds
            line.close()
        return fds

    def _ask(self, packet: Packet, fds: Sequence[int]) -> _Line:
        line = _Line(self._init)
        packet.fds = [line.far, *fds]
        try:
            packet.send(self._channel)
        except OSError as error:
            with line:
                raise SandboxError(_GONE) from error
        except ValueError:
            with line:
                raise
        return line


def _raise_refusal(answer: Answer, program: str) -> None:
    try:
        answer.checked()
    except Refused as error:
        raise OSError(
            error.code, f"{os.strerror(error.code)} ({error.step})", program
        ) from error
