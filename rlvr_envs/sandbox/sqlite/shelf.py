"""The folder that holds a process's databases: seeds once, a copy for each episode."""

from __future__ import annotations

import fcntl
import itertools
import os
import secrets
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

from rlvr_envs.errors import SandboxError, boundary
from rlvr_envs.sandbox.owners import is_abandoned, owner_name
from rlvr_envs.sandbox.sqlite.seeds import Seed
from rlvr_envs.sandbox.sqlite.workers import Nursery

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder's name carries a nonce
_PREFIX = "rlvr-sqlite-"
_FICLONE = 0x40049409


@dataclass(frozen=True, slots=True)
class Template:
    """A seed's database.

    Attributes:
        path: Its file, which nobody writes to.
        names: Its tables and views, in lower case, sorted.
    """

    digest: str
    path: Path
    names: tuple[str, ...]


class Shelf:
    """Databases of this process, and the processes that open them.

    Args:
        parent: Where its folder goes; memory by default. On a file system that
            shares blocks, a copy of any size takes no time.

    Raises:
        SandboxError: If the folder or the process cannot be made.
    """

    def __init__(self, parent: Path = SHARED_MEMORY) -> None:
        sweep(parent)
        self.folder = parent / f"{_PREFIX}{owner_name()}-{secrets.token_hex(3)}"
        with boundary(SandboxError, f"making a folder for databases in {parent}"):
            self.folder.mkdir()
            # Others may pass, and look at nothing.
            self.folder.chmod(0o711)
        self.nursery = Nursery(self.folder)
        self._templates: dict[str, Template] = {}
        self._lock = threading.Lock()
        self._count = itertools.count(1)

    def template(self, seed: Seed) -> Template:
        """Return a seed's database; made at the first call.

        Raises:
            SnapshotError: If the seed's SQL fails.
        """
        digest = seed.digest
        with self._lock:
            if digest not in self._templates:
                path = self.folder / f"{digest.removeprefix('sha256:')[:32]}.db"
                with boundary(SandboxError, "making a seed's database"):
                    self._templates[digest] = Template(digest, path, seed.build(path))
            return self._templates[digest]

    def drop(self, template: Template) -> None:
        """Remove a seed's database; no copy of it is in use any more."""
        with self._lock:
            self._templates.pop(template.digest, None)
            template.path.unlink(missing_ok=True)

    def copy(self, template: Template) -> Path:
        """Return the path of a fresh copy, in a folder that workers may write to.

        Raises:
            SandboxError: If there is no room.
        """
        with boundary(SandboxError, "copying a database"):
            folder = self.folder / f"e{next(self._count):06d}"
            folder.mkdir(mode=0o700)
            path = folder / "main.db"
            _copy(template.path, path)
            user = self.nursery.user
            if user is not None:
                for made in (path, folder):
                    os.chown(made, user, user)
            return path

    def close(self) -> None:
        """Remove everything; idempotent."""
        self.nursery.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def sweep(parent: Path = SHARED_MEMORY) -> tuple[str, ...]:
    """Remove folders of processes that are dead; return their names, sorted."""
    gone = []
    for folder in sorted(parent.glob(f"{_PREFIX}*")):
        if is_abandoned(folder.name.removeprefix(_PREFIX)):
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(folder.name)
    return tuple(gone)


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as old, target.open("xb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            shutil.copyfile(source, target)
