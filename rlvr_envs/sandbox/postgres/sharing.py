"""What all environments of one process share: servers, templates, pools."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
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


@dataclass(slots=True)
class _Shared:
    cluster: Cluster
    templates: dict[str, Template] = field(default_factory=dict)
    pools: dict[tuple[str, Access], ClonePool] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


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
        pool = _pool(shared, seed, access, pool_size)
    return pool.lease()


def close_clusters() -> None:
    """End every pool, server and template of this process; the next lease anew."""
    with _lock:
        for key in list(_shared):
            shared = _shared.pop(key)
            if key[0] == os.getpid():
                _end(shared)


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
            found = _shared[key] = _Shared(cluster)
        return found


def _pool(shared: _Shared, seed: Seed, access: Access, size: int) -> ClonePool:
    template = shared.templates.get(seed.digest)
    if template is None:
        template = shared.templates[seed.digest] = Template(shared.cluster, seed)
    key = (seed.digest, access)
    if key not in shared.pools:
        shared.pools[key] = ClonePool(template, access, size=size)
    return shared.pools[key]


def _end(shared: _Shared) -> None:
    """A server that is gone already leaves nothing to drop."""
    closing: list[ClonePool | Template | Cluster] = [
        *shared.pools.values(),
        *shared.templates.values(),
        shared.cluster,
    ]
    for item in closing:
        with contextlib.suppress(WorldError):
            item.close()


def _after_fork() -> None:
    """A lock that another thread held at the fork would stay locked for ever."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_clusters)
