"""What all environments of one process share: servers, templates, pools."""

from __future__ import annotations

import atexit
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlvr_envs.sandbox.perprocess import PerProcess
from rlvr_envs.sandbox.pooling import Pools
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
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


class Server:
    """A cluster as the place of templates and clones.

    Args:
        source: Where it is, or what folder it gets.
    """

    def __init__(self, source: Source) -> None:
        self._is_own = not source.dsn
        self.cluster = (
            Cluster.start(source.folder) if self._is_own else Cluster(source.dsn)
        )

    @property
    def alive(self) -> bool:
        """Whether the server runs, and is the one that was started."""
        return self.cluster.alive

    def template(self, seed: Seed) -> Template:
        """Return a seed's; another process of the cluster may have made it."""
        return Template(self.cluster, seed)

    def clone(self, template: Template, access: Access) -> Clone:
        """Make a clone; the server makes one at a time anyway."""
        return make_clone(self.cluster.filler(), template, access)

    def drop(self, template: Template) -> None:
        """Remove a template; others may use a cluster that is not ours."""
        if self._is_own and self.alive:
            template.drop()
        else:
            template.close()

    def interrupt(self) -> None:
        """Let nothing wait any more."""
        self.cluster.interrupt()

    def close(self) -> None:
        """Drop what is this process's, and end the server if that is; idempotent."""
        self.cluster.close()


class ServerPools(Pools[Seed, Template, Access, Clone]):
    """A server, and what stands ready on it."""

    def __init__(self, source: Source) -> None:
        self.server = Server(source)
        super().__init__(self.server)

    def settle(self) -> Cluster:
        """Wait until what was closed is gone; return the cluster."""
        self.server.cluster.settle()
        return self.server.cluster


_shared = PerProcess(ServerPools, alive=lambda pools: pools.alive)


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
    return _shared.get(source).lease(seed, access, pool_size=pool_size)


def close_pools() -> None:
    """Drop the clones that stand ready; the next lease makes others."""
    for pools in _shared.mine():
        pools.drain()


def rest() -> None:
    """Wait until what shall stand ready does, and what was closed is gone.

    Raises:
        SandboxError: If that fails.
    """
    for pools in _shared.mine():
        pools.rest()
        pools.settle()


def census() -> Mapping[str, int]:
    """Count what this process's clusters hold, once nothing stands ready any more.

    Returns:
        Databases, roles, slots and sessions, together.
    """
    close_pools()
    counts = Counter[str]()
    for pools in _shared.mine():
        counts.update(pools.settle().census())
    return dict(counts)


def close_clusters() -> None:
    """End every pool, server and template of this process; the next lease anew."""
    _shared.close()


atexit.register(close_clusters)
