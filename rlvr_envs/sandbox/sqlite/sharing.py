"""What all environments of one process share: folders, seeds, pools."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rlvr_envs.errors import WorldError
from rlvr_envs.sandbox.sqlite.clone import Access, Clone, make_clone
from rlvr_envs.sandbox.sqlite.seeds import Seed
from rlvr_envs.sandbox.sqlite.shelf import SHARED_MEMORY, Shelf
from rlvr_envs.sandbox.warming import WarmPool


@dataclass(slots=True)
class _Shared:
    shelf: Shelf
    pools: dict[tuple[str, Access], WarmPool[Clone]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_shared: dict[tuple[int, Path], _Shared] = {}
_lock = threading.Lock()


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
    shared = _living(folder)
    with shared.lock:
        key = (seed.digest, access)
        if key not in shared.pools:
            template = shared.shelf.template(seed)
            make = partial(make_clone, shared.shelf, template, access)
            shared.pools[key] = WarmPool(make, size=pool_size, what="database")
        pool = shared.pools[key]
    return pool.lease()


def close_shelves() -> None:
    """End every pool and folder of this process; the next lease starts anew."""
    with _lock:
        for key in list(_shared):
            shared = _shared.pop(key)
            if key[0] == os.getpid():
                _end(shared)


def _living(folder: Path) -> _Shared:
    key = (os.getpid(), folder)
    with _lock:
        found = _shared.get(key)
        if found is None or not found.shelf.nursery.alive:
            if found is not None:
                _end(found)
            found = _shared[key] = _Shared(Shelf(folder))
        return found


def _end(shared: _Shared) -> None:
    for pool in shared.pools.values():
        with contextlib.suppress(WorldError):
            pool.close()
    with contextlib.suppress(WorldError):
        shared.shelf.close()


def _after_fork() -> None:
    """A lock that another thread held at the fork would stay locked for ever."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_shelves)
