"""User namespaces that stand for a change of owners on an idmapped mount."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.launcher import start_launcher
from rlvr_envs.sandbox.wire import receive

IDS = 65_536
"""Ids in the range of one sandbox."""


class IdMaps:
    """One descriptor per change of range, made once and kept."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._fds: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def between(self, stored: int, shown: int) -> int | None:
        """Return the descriptor that shows ids from ``stored`` on as ``shown`` on.

        Args:
            stored: First id as the files have it: 0, or a sandbox's ``id_base``.
            shown: First host id that they shall appear with.

        Returns:
            None if nothing has to change. The descriptor stays ours.

        Raises:
            SandboxError: If the kernel refuses.
        """
        if stored == shown:
            return None
        with self._lock:
            fd = self._fds.get((stored, shown))
            if fd is None:
                fd = self._make(f"{stored} {shown} {IDS}")
                self._fds[stored, shown] = fd
            return fd

    def close(self) -> None:
        """Close the descriptors."""
        with self._lock:
            while self._fds:
                os.close(self._fds.popitem()[1])

    def _make(self, id_map: str) -> int:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with near:
            with far:
                pid = start_launcher(self._program, far, "--userns", id_map)
            answer = receive(near)
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pid = 0
        if answer is None:
            raise SandboxError("The launcher ended while mapping ids.")
        return answer.checked().fds[0]
