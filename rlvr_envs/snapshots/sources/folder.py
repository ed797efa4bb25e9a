"""A root file system that lies in a folder of the host."""

from __future__ import annotations

from pathlib import Path

from rlvr_envs.errors import CallerError
from rlvr_envs.snapshots.finishing import packages
from rlvr_envs.snapshots.sealing import seal
from rlvr_envs.snapshots.sources.base import LATEST_S, Progress, Provenance

FOREVER_S = 1 << 40


class FolderSource:
    """A copy of a folder, owners and modes included; the folder stays as it is."""

    def __init__(self, folder: Path, *, latest_s: int = LATEST_S) -> None:
        self._folder = folder
        self._latest_s = latest_s

    @property
    def latest_s(self) -> int:
        """As it was asked for."""
        return self._latest_s

    def fill(self, root: Path, *, progress: Progress) -> Provenance:
        """Copy the folder.

        Raises:
            CallerError: If it is no folder.
            SnapshotError: If an owner's id lies above 65535.
        """
        if not self._folder.is_dir():
            raise CallerError(
                f"{self._folder} is no folder.",
                remedy="name a folder that holds a whole root file system.",
            )
        progress(f"Copying {self._folder}.")
        seal(self._folder, root, latest_s=FOREVER_S, id_base=0)
        return Provenance("folder", self._folder.name, "copy", packages=packages(root))
