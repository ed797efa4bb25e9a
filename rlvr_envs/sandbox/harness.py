"""The folder that the host writes and everybody inside may only read."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.base import HARNESS_FOLDER, SandboxSpec, check_name
from rlvr_envs.sandbox.procfiles import epoch_of


class HarnessFolder:
    """Files of one sandbox's `HARNESS_FOLDER`.

    Args:
        folder: Host path of the folder.
        spec: Who owns it inside, and what the time is there.
    """

    def __init__(self, folder: Path, spec: SandboxSpec) -> None:
        self._folder = folder
        self._owner = spec.id_base
        self._wall_s: float | None = epoch_of(spec) or None
        self._numbers = itertools.count()

    def set_time(self, wall_s: float) -> None:
        """Say what the time is; files that are put from now on carry it."""
        self._wall_s = wall_s

    def put(self, name: str, data: bytes) -> str:
        """Write a file, replacing an earlier one atomically; return its path inside.

        Raises:
            ValueError: If ``name`` is no plain file name.
            SandboxError: If the folder is full or gone.
        """
        check_name(name)
        aside = self._folder / f".{next(self._numbers)}"
        try:
            self._write(aside, data)
            aside.rename(self._folder / name)
            if self._wall_s is not None:
                os.utime(self._folder, (self._wall_s, self._wall_s))
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise SandboxError(
                f"The harness file {name!r} of {len(data)} bytes cannot be written: "
                f"{error}."
            ) from error
        return f"{HARNESS_FOLDER}/{name}"

    def _write(self, path: Path, data: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
            os.fchown(fd, self._owner, self._owner)
            os.fchmod(fd, 0o444)
            if self._wall_s is not None:
                os.utime(fd, (self._wall_s, self._wall_s))
        finally:
            os.close(fd)
