"""What all environments of one process share: folders, seeds, pools."""

from __future__ import annotations

import atexit
from pathlib import Path

from rlvr_envs.sandbox.perprocess import PerProcess
from rlvr_envs.sandbox.pooling import Pools
from rlvr_envs.sandbox.sqlite.clone import Access, Clone, make_clone
from rlvr_envs.sandbox.sqlite.seeds import Seed
from rlvr_envs.sandbox.sqlite.shelf import SHARED_MEMORY, Shelf, Template


class Folder:
    """A shelf as the place of templates and copies.

    Args:
        parent: Where its folder goes.
    """

    def __init__(self, parent: Path) -> None:
        self._shelf = Shelf(parent)

    @property
    def alive(self) -> bool:
        """Whether the process that forks workers can be asked."""
        return self._shelf.nursery.alive

    def template(self, seed: Seed) -> Template:
        """Return a seed's file."""
        return self._shelf.template(seed)

    def clone(self, template: Template, access: Access) -> Clone:
        """Copy it, and open the copy."""
        return make_clone(self._shelf, template, access)

    def drop(self, template: Template) -> None:
        """Remove a seed's file."""
        self._shelf.drop(template)

    def interrupt(self) -> None:
        """Do nothing: no maker of copies waits for an episode."""

    def close(self) -> None:
        """Remove everything; idempotent."""
        self._shelf.close()


def _pools(folder: Path) -> Pools[Seed, Template, Access, Clone]:
    return Pools(Folder(folder))


_shared = PerProcess(_pools, alive=lambda pools: pools.alive)


def lease(
    seed: Seed, access: Access, *, folder: Path = SHARED_MEMORY, pool_size: int = 4
) -> Clone:
    """Return a fresh copy of a seed's database; the caller closes it.

    Folder, seed and pool are made at the first call. A process that forks workers
    and died in between is replaced: its databases are lost, this one is not.

    Args:
        seed: Found by its digest.
        access: What the agent may do.
        folder: Where databases are kept: memory by default. A file system that
            shares blocks copies large seeds in no time.
        pool_size: Copies kept ready for this seed and access; the first call says.

    Raises:
        SnapshotError: If the seed's SQL fails.
        SandboxError: If there is no room, or no process starts.
    """
    return _shared.get(folder).lease(seed, access, pool_size=pool_size)


def close_shelves() -> None:
    """End every pool and folder of this process; the next lease starts anew."""
    _shared.close()


atexit.register(close_shelves)
