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
from rlvr_envs.sandbox.sqlite.shelf import SHARED_MEMORY, Shelf, Template
from rlvr_envs.sandbox.warming import WarmPool

KEPT_SEEDS = 8
"""Seeds whose file and warm copies are kept; the one leased longest ago goes."""


@dataclass(slots=True)
class _Held:
    """What stands ready of one seed.

    Attributes:
        living: Copies that episodes have; while there are any, it is not let go.
    """

    template: Template
    pools: dict[Access, WarmPool[Clone]] = field(default_factory=dict)
    living: int = 0

    def close_pools(self) -> None:
        while self.pools:
            _, pool = self.pools.popitem()
            pool.close()


@dataclass(slots=True)
class _Shared:
    shelf: Shelf
    held: dict[str, _Held] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    counting: threading.Lock = field(default_factory=threading.Lock)

    def count(self, held: _Held, change: int) -> None:
        with self.counting:
            held.living += change


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
        held = _held(shared, seed)
        shared.count(held, 1)
        if access not in held.pools:
            make = partial(make_clone, shared.shelf, held.template, access)
            held.pools[access] = WarmPool(make, size=pool_size, what="database")
        pool = held.pools[access]
    try:
        clone = pool.lease()
    except BaseException:
        shared.count(held, -1)
        raise
    clone.when_closed(lambda: shared.count(held, -1))
    return clone


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


def _held(shared: _Shared, seed: Seed) -> _Held:
    """Return what there is of a seed, as the last that was asked for."""
    held = shared.held.pop(seed.digest, None)
    if held is None:
        _make_room(shared)
        held = _Held(shared.shelf.template(seed))
    shared.held[seed.digest] = held
    return held


def _make_room(shared: _Shared) -> None:
    """Let go of seeds that no episode plays."""
    idle = [digest for digest, held in shared.held.items() if not held.living]
    for digest in idle[: max(0, len(shared.held) - KEPT_SEEDS + 1)]:
        held = shared.held.pop(digest)
        held.close_pools()
        shared.shelf.drop(held.template)


def _end(shared: _Shared) -> None:
    for held in shared.held.values():
        with contextlib.suppress(WorldError):
            held.close_pools()
    with contextlib.suppress(WorldError):
        shared.shelf.close()


def _after_fork() -> None:
    """A lock that another thread held at the fork would stay locked for ever."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_shelves)
