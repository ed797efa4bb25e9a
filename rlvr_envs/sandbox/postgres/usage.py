"""How much of the server's log each of its processes has written, while it writes."""

from __future__ import annotations

import os
import struct
from pathlib import Path

_WORD = struct.Struct("=Q")


class UsageTable:
    """A file with a word for each process id, which the server's processes write.

    It must exist before the server starts, in a folder that nobody else enters.

    Args:
        path: Of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        pids = int(Path("/proc/sys/kernel/pid_max").read_text())
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        self._descriptor = os.open(path, flags, 0o600)
        os.fchmod(self._descriptor, 0o666)
        os.ftruncate(self._descriptor, (pids + 1) * _WORD.size)

    def written_bytes(self, pid: int) -> int:
        """Return what a living process wrote since it began; 0 if the server ended."""
        if self._descriptor < 0:
            return 0
        data = os.pread(self._descriptor, _WORD.size, pid * _WORD.size)
        return int(_WORD.unpack(data)[0]) if len(data) == _WORD.size else 0

    def close(self) -> None:
        """Let go of the file; idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
