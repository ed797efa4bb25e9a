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
from rlvr_envs.sandbox.wire import Packet

_SEND_S = 60.0


class Broker:
    """One broker process; it ends with this process at the latest.

    Args:
        program: The launcher.

    Raises:
        SandboxError: If it cannot be started.
    """

    def __init__(self, program: Path) -> None:
        self._channel, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_SEND_S)
        self._lock = threading.Lock()
        self._closed = False
        try:
            with far:
                self.pid = start_launcher(program, far)
        except BaseException:
            self._channel.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether it was not closed yet."""
        return not self._closed

    def start(self, channel: socket.socket) -> None:
        """Have a supervisor started, a child of this process, and return at once.

        The first answer on its channel is its pid, or why there is none; the channel
        ends at once if the broker does.

        Args:
            channel: The supervisor's end; it stays the caller's.

        Raises:
            SandboxError: If there is no broker any more.
        """
        packet = Packet()
        packet.add("start")
        packet.place(channel.fileno())
        with self._lock:
            try:
                packet.send(self._channel)
            except OSError as error:
                raise SandboxError(f"No supervisor can be started: {error}.") from error

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


def start_supervisor(program: Path, channel: socket.socket) -> None:
    """Have this process's broker start a supervisor; see `Broker.start`.

    A broker that somebody killed is replaced.

    Raises:
        SandboxError: If no broker can be started.
    """
    broker = _brokers.get(program)
    try:
        broker.start(channel)
    except SandboxError:
        broker.close()
        _brokers.get(program).start(channel)


def close_brokers() -> None:
    """End this process's brokers; the next start makes one anew."""
    _brokers.close()
