"""Hulls: an init in its namespaces and control groups, waiting for a world.

Making one costs several milliseconds, most of them the kernel's wait for all its
processors when a process changes its version 1 control groups. None of it depends
on what the sandbox will hold, so one hull is always made ahead.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from pathlib import Path

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.cgroups import Group, Hierarchies
from rlvr_envs.sandbox.owners import owner_name
from rlvr_envs.sandbox.supervisor import Supervisor
from rlvr_envs.sandbox.wire import Packet

_NUMBERS = itertools.count()
"""Of this process's hulls, whichever store makes them."""

SPARE_S = 1800.0
"""How long a spare is kept: its init must not look older inside than the world."""


class Hull:
    """A supervisor, and the init that it has cloned."""

    def __init__(self, program: Path, hierarchies: Hierarchies, name: str) -> None:
        self.group = Group(hierarchies, name)
        self.init = -1
        self.init_pid = 0
        self.made = time.monotonic()
        self.spawn_channel, far = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )
        with far:
            try:
                self.supervisor = Supervisor(program)
            except BaseException:
                self.spawn_channel.close()
                raise
            try:
                self._order(far)
            except BaseException:
                self.close()
                raise

    def _order(self, far: socket.socket) -> None:
        packet = Packet()
        packet.add("owner", os.getpid())
        self.group.creation(packet)
        packet.add("hull", self.group.unified or "-", packet.place(far.fileno()))
        for file in self.group.joins:
            packet.add("join", file)
        self.supervisor.post(packet)

    def ready(self) -> Hull:
        """Wait until it is made; return it.

        Raises:
            SandboxError: If the kernel refused; the hull is gone then.
        """
        try:
            answer = self.supervisor.collect()
        except BaseException:
            self.close()
            raise
        self.init_pid = int(answer.fields[1])
        self.init = answer.fds[0]
        return self

    def close(self) -> None:
        """End it and remove its control groups; idempotent."""
        self.spawn_channel.close()
        cleared = self.supervisor.close()
        if self.init >= 0:
            os.close(self.init)
            self.init = -1
        self.group.close()
        if not cleared:
            self.group.remove()


class HullStore:
    """Hands out hulls and keeps one ahead; safe to use from threads."""

    def __init__(self, program: Path, hierarchies: Hierarchies) -> None:
        self._program = program
        self._hierarchies = hierarchies
        self._owner = owner_name()
        self._spare: Hull | None = None
        self._lock = threading.Lock()

    def take(self) -> Hull:
        """Return a hull that is ready, and have the next one made.

        Raises:
            SandboxError: If the kernel refused to make one.
        """
        with self._lock:
            spare, self._spare = self._spare, None
        return self._usable(spare) or self._make().ready()

    def restock(self) -> None:
        """Begin to make the next hull, if none is kept; returns at once."""
        with self._lock:
            if self._spare is None:
                self._spare = self._make()

    def close(self) -> None:
        """End the spare hull."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()

    def _usable(self, spare: Hull | None) -> Hull | None:
        """A spare that is too old, or was killed meanwhile, is no reason to fail."""
        if spare is None:
            return None
        too_old = time.monotonic() - spare.made > SPARE_S
        if too_old or not spare.supervisor.is_alive():
            spare.close()
            return None
        try:
            return spare.ready()
        except SandboxError:
            return None

    def _make(self) -> Hull:
        name = f"{self._owner}-{next(_NUMBERS)}"
        return Hull(self._program, self._hierarchies, name)
