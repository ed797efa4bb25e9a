"""The host's end of one supervisor: the process that owns a sandbox's mounts."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.broker import start_supervisor
from rlvr_envs.sandbox.wire import (
    Answer,
    Packet,
    Refused,
    receive,
    receive_plain,
)

ANSWER_S = 60
"""How long a request may take, in seconds; copying a full layer is the longest."""

_EXIT_S = 15.0

_REMEDIES = {
    errno.ENOSPC: "free space or inodes on the host, or lower the limits.",
    errno.ENOMEM: "free memory on the host, or run fewer sandboxes at once.",
    errno.EAGAIN: "raise the host's process limit (ulimit -u), or run fewer sandboxes.",
    errno.EMFILE: "raise the limit of open files (ulimit -n).",
    errno.ENFILE: "raise fs.file-max.",
    errno.EPERM: "run as root with CAP_SYS_ADMIN; `rlvr doctor` says what is missing.",
}


class Supervisor:
    """One launcher process; it ends with this process at the latest."""

    def __init__(self, program: Path) -> None:
        self._channel, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._pid = 0
        self._handle = -1
        self._owed = 0
        self._told: int | None = None
        self._broken = False
        self._dismissed = False
        for direction in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            # The kernel's own limit: Python's costs a poll before every call.
            limit = struct.pack("@ll", ANSWER_S, 0)
            self._channel.setsockopt(socket.SOL_SOCKET, direction, limit)
        try:
            with far:
                start_supervisor(program, far)
        except BaseException:
            self._channel.close()
            raise

    @property
    def pid(self) -> int:
        """Its process id; waits until it has begun to run.

        Raises:
            SandboxError: If it could not be started.
        """
        with self._lock:
            self._meet()
            return self._pid

    @property
    def root(self) -> Path:
        """The supervisor's own view of the host's files, its mounts included."""
        return Path(f"/proc/{self.pid}/root")

    def is_alive(self) -> bool:
        """Whether the process still runs."""
        try:
            with self._lock:
                self._meet()
        except SandboxError:
            return False
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return not poll.poll(0)

    def post(self, packet: Packet) -> None:
        """Send a request without waiting for its answer, which `collect` returns."""
        with self._lock:
            self._send(packet)

    def collect(self) -> Answer:
        """Return the answer to a request that was posted; see `request`."""
        with self._lock:
            return self._take()

    def request(self, packet: Packet) -> Answer:
        """Have the verbs of a packet done.

        Raises:
            SandboxError: `Refused` if a verb failed; else if the supervisor is gone.
        """
        with self._lock:
            self._send(packet)
            return self._take()

    def defer(self, packet: Packet) -> None:
        """Have the verbs of a packet done while the caller goes on.

        What fails is raised by `settle`, or by the next request of any kind.
        """
        with self._lock:
            self._send(packet)
            self._owed += 1

    def settle(self) -> None:
        """Wait until everything that was deferred is done.

        Raises:
            SandboxError: If a deferred verb failed, or the supervisor is gone.
        """
        with self._lock:
            self._take_owed()

    def told(self) -> int | None:
        """Return what the last deferred packet says ahead of its end, once.

        None if it says nothing, or was asked before.

        Raises:
            SandboxError: As `settle` does.
        """
        with self._lock:
            while self._told is None and self._owed:
                self._hear()
            told, self._told = self._told, None
            return told

    def dismiss(self) -> None:
        """Tell it to end the sandbox and itself; `close` waits for both."""
        with self._lock:
            if self._channel.fileno() >= 0 and not (self._broken or self._dismissed):
                self._quit()
                self._dismissed = True

    def close(self) -> bool:
        """End the sandbox and the supervisor, wait for both; idempotent.

        Returns:
            Whether it cleared away what it made on the host; false the second time.
        """
        self.dismiss()
        with self._lock:
            if self._channel.fileno() < 0:
                return False
            with self._channel, contextlib.suppress(SandboxError):
                self._meet()
            if not self._pid:
                return False
            cleared = _wait_for_exit(self._pid, self._handle)
            os.close(self._handle)
            return cleared

    def _quit(self) -> None:
        packet = Packet()
        packet.add("quit")
        try:
            packet.send(self._channel)
        except OSError:
            return

    def _meet(self) -> None:
        """Take its first answer, which says who it is."""
        if self._pid:
            return
        answer = self._heard(receive_plain)
        self._pid = int(answer.fields[1])
        self._handle = os.pidfd_open(self._pid)

    def _take_owed(self) -> None:
        while self._owed:
            self._hear()

    def _hear(self) -> None:
        """Take a deferred packet's next word; its answer is the last one."""
        try:
            answer = self._take(receive_plain)
        except SandboxError:
            self._owed -= 1
            raise
        if answer.fields[0] == "told":
            self._told = int(answer.fields[1])
        else:
            self._owed -= 1

    def _send(self, packet: Packet) -> None:
        self._take_owed()
        self._told = None
        if self._broken or self._dismissed or self._channel.fileno() < 0:
            raise SandboxError("The sandbox is gone.")
        try:
            packet.send(self._channel)
        except OSError as error:
            self._break()
            raise SandboxError(f"The sandbox is gone: {error}.") from error

    def _take(self, take: Callable[[socket.socket], Answer | None] = receive) -> Answer:
        self._meet()
        return self._heard(take)

    def _heard(self, take: Callable[[socket.socket], Answer | None]) -> Answer:
        """An interrupted wait would leave an answer behind: end the supervisor."""
        try:
            answer = take(self._channel)
        except OSError as error:
            self._break()
            raise SandboxError(f"The sandbox does not answer: {error}.") from error
        except BaseException:
            self._break()
            raise
        if answer is None:
            self._break()
            raise SandboxError("The sandbox's supervisor ended.")
        try:
            return answer.checked()
        except Refused as error:
            remedy = _REMEDIES.get(error.code)
            if remedy:
                error.remedy = remedy
                error.args = (f"{error} Remedy: {remedy}",)
            raise

    def _break(self) -> None:
        self._broken = True
        if self._handle >= 0:
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)


def _wait_for_exit(pid: int, handle: int) -> bool:
    """Whether it ended of itself."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    if not poll.poll(_EXIT_S * 1000):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    try:
        return os.waitpid(pid, 0)[1] == 0
    except ChildProcessError:
        return False
