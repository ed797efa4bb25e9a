"""What all environments of one process share: servers, templates, pools."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rlvr_envs.errors import WorldError
from rlvr_envs.sandbox.postgres.clone import Clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.pool import ClonePool
from rlvr_envs.sandbox.postgres.roles import Access
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.server import SHARED_MEMORY
from rlvr_envs.sandbox.postgres.templates import Template


@dataclass(frozen=True, slots=True)
class Source:
    """Where databases live.

    Attributes:
        dsn: A superuser's connection string to a cluster that exists, without a
            database; empty for a server of this process's own.
        folder: Where our own server keeps its data: memory by default. A file
            system that shares blocks clones large seeds in no time.
    """

    dsn: str = ""
    folder: Path = SHARED_MEMORY


KEPT_SEEDS = 8
"""Seeds whose template and warm clones are kept; the one leased longest ago goes."""


@dataclass(slots=True)
class _Held:
    """What stands ready of one seed.

    Attributes:
        living: Clones that episodes have; while there are any, it is not let go.
    """

    template: Template
    pools: dict[Access, ClonePool] = field(default_factory=dict)
    living: int = 0

    def close_pools(self) -> None:
        while self.pools:
            _, pool = self.pools.popitem()
            pool.close()


@dataclass(slots=True)
class _Shared:
    cluster: Cluster
    is_own: bool
    held: dict[str, _Held] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    counting: threading.Lock = field(default_factory=threading.Lock)

    def count(self, held: _Held, change: int) -> None:
        with self.counting:
            held.living += change


_shared: dict[tuple[int, Source], _Shared] = {}
_lock = threading.Lock()


def lease(seed: Seed, access: Access, *, source: Source, pool_size: int = 4) -> Clone:
    """Return a fresh clone of a seed; the caller closes it.

    The server, the template and the pool are made at the first call. A server
    that died in between is replaced: its clones are lost, this one is not.

    Args:
        seed: Found by its digest.
        access: What the agent's role may do.
        source: Where the server is, or what folder it gets.
        pool_size: Clones kept ready for this seed and access; the first call says.

    Raises:
        MissingRequirement: If there is no server to be had on this machine.
        SnapshotError: If the seed's SQL fails.
        SandboxError: If the server does.
    """
    shared = _living(source)
    with shared.lock:
        held = _held(shared, seed)
        shared.count(held, 1)
        if access not in held.pools:
            held.pools[access] = ClonePool(held.template, access, size=pool_size)
        pool = held.pools[access]
    try:
        clone = pool.lease()
    except BaseException:
        shared.count(held, -1)
        raise
    clone.when_closed(lambda: shared.count(held, -1))
    return clone


def close_pools() -> None:
    """Drop the clones that stand ready; the next lease makes others."""
    for shared in _mine():
        with shared.lock:
            for held in shared.held.values():
                held.close_pools()


def rest() -> None:
    """Wait until what shall stand ready does, and what was closed is gone.

    Raises:
        SandboxError: If that fails.
    """
    for shared in _mine():
        for held in list(shared.held.values()):
            for pool in list(held.pools.values()):
                pool.rest()
        shared.cluster.settle()


def census() -> Mapping[str, int]:
    """Count what this process's clusters hold, once nothing stands ready any more.

    Returns:
        Databases, roles, slots and sessions, together.
    """
    close_pools()
    counts = Counter[str]()
    for shared in _mine():
        shared.cluster.settle()
        counts.update(shared.cluster.census())
    return dict(counts)


def close_clusters() -> None:
    """End every pool, server and template of this process; the next lease anew."""
    with _lock:
        for key in list(_shared):
            shared = _shared.pop(key)
            if key[0] == os.getpid():
                _end(shared)


def _mine() -> list[_Shared]:
    with _lock:
        return [found for (pid, _), found in _shared.items() if pid == os.getpid()]


def _living(source: Source) -> _Shared:
    key = (os.getpid(), source)
    with _lock:
        found = _shared.get(key)
        if found is None or not found.cluster.alive:
            if found is not None:
                _end(found)
            cluster = (
                Cluster(source.dsn) if source.dsn else Cluster.start(source.folder)
            )
            found = _shared[key] = _Shared(cluster, is_own=not source.dsn)
        return found


def _held(shared: _Shared, seed: Seed) -> _Held:
    """Return what there is of a seed, as the last that was asked for."""
    held = shared.held.pop(seed.digest, None)
    if held is None:
        _make_room(shared)
        held = _Held(Template(shared.cluster, seed))
    shared.held[seed.digest] = held
    return held


def _make_room(shared: _Shared) -> None:
    """Let go of seeds that no episode plays; others may use a cluster that is not ours."""
    idle = [digest for digest, held in shared.held.items() if not held.living]
    for digest in idle[: max(0, len(shared.held) - KEPT_SEEDS + 1)]:
        held = shared.held.pop(digest)
        held.close_pools()
        if shared.is_own:
            held.template.drop()
        else:
            held.template.close()


def _end(shared: _Shared) -> None:
    """A server that is gone already leaves nothing to drop.

    An episode that nobody closed may hold what the maker of clones waits for.
    """
    shared.cluster.interrupt()
    for held in shared.held.values():
        closing: list[ClonePool | Template] = [*held.pools.values(), held.template]
        for item in closing:
            with contextlib.suppress(WorldError):
                item.close()
    with contextlib.suppress(WorldError):
        shared.cluster.close()


def _after_fork() -> None:
    """A lock that another thread held at the fork would stay locked for ever."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_clusters)
