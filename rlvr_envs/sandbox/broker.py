"""A small process that starts supervisors, so that the trainer never does.

To start a program, Python holds its interpreter lock until the kernel has loaded
it: a millisecond in which no other slot moves. The broker clones itself instead,
in a tenth of that, and makes the clone the trainer's own child.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.launcher import start_launcher
from rlvr_envs.sandbox.perprocess import PerProcess
from rlvr_envs.sandbox.wire import Packet, receive

_ANSWER_S = 60.0
_NAME = "brok"
"""As long as ``init``, which it takes in its place: agents see it in ``ps``."""


class Broker:
    """One broker process; it ends with this process at the latest.

    Args:
        program: The launcher.

    Raises:
        SandboxError: If it cannot be started.
    """

    def __init__(self, program: Path) -> None:
        self._channel, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_ANSWER_S)
        self._lock = threading.Lock()
        self._closed = False
        try:
            with far:
                self.pid = start_launcher(program, far, name=_NAME)
        except BaseException:
            self._channel.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether it was not closed yet."""
        return not self._closed

    def start(self, channel: socket.socket) -> int:
        """Start a supervisor, a child of this process, that is told what to do there.

        Args:
            channel: The far end; it stays the caller's.

        Returns:
            Its pid.

        Raises:
            SandboxError: If there is no process to be had, or no broker any more.
        """
        packet = Packet()
        packet.add("start")
        packet.place(channel.fileno())
        with self._lock:
            try:
                packet.send(self._channel)
                answer = receive(self._channel)
            except OSError as error:
                raise SandboxError(f"No supervisor can be started: {error}.") from error
        if answer is None:
            raise SandboxError("The process that starts supervisors has ended.")
        return int(answer.checked().fields[1])

    def close(self) -> None:
        """End it; supervisors go on. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            with contextlib.suppress(OSError):
                # A forked child may hold our end too.
                self._channel.shutdown(socket.SHUT_RDWR)
            self._channel.close()
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            return


_brokers = PerProcess(Broker, alive=lambda broker: broker.alive)


def start_supervisor(program: Path, channel: socket.socket) -> int:
    """Start a supervisor through this process's broker; return its pid.

    A broker that somebody killed is replaced.

    Raises:
        SandboxError: If it cannot be started.
    """
    broker = _brokers.get(program)
    try:
        return broker.start(channel)
    except SandboxError:
        broker.close()
        return _brokers.get(program).start(channel)


def close_brokers() -> None:
    """End this process's brokers; the next start makes one anew."""
    _brokers.close()
