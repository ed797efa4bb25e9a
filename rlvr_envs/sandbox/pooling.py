"""Databases of one place: seeds once as templates, and warm clones of each."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from rlvr_envs.errors import WorldError
from rlvr_envs.sandbox.warming import WarmPool

KEPT_SEEDS = 8
"""Seeds whose template and warm clones are kept; the one leased longest ago goes."""


class AnySeed(Protocol):
    """What a database starts from."""

    @property
    def digest(self) -> str:
        """The same for the same seed."""


class AnyClone(Protocol):
    """A database of one episode."""

    def when_closed(self, tell: Callable[[], None], /) -> None:
        """Have it told, once, that the clone is closed."""

    def close(self) -> None:
        """Remove every trace; idempotent."""


Seed = TypeVar("Seed", bound=AnySeed, contravariant=True)
Access = TypeVar("Access", bound=Hashable, contravariant=True)
Clone = TypeVar("Clone", bound=AnyClone, covariant=True)
Template = TypeVar("Template")


class Place(Protocol[Seed, Template, Access, Clone]):
    """Where an engine keeps databases: a server, or a folder."""

    @property
    def alive(self) -> bool:
        """Whether it can still be used."""

    def template(self, seed: Seed) -> Template:
        """Load a seed."""

    def clone(self, template: Template, access: Access) -> Clone:
        """Make a database of one episode."""

    def drop(self, template: Template) -> None:
        """Let go of a template; no clone of it is in use any more."""

    def interrupt(self) -> None:
        """Let nothing that makes clones wait any more: the end has come."""

    def close(self) -> None:
        """End it; idempotent."""


@dataclass(slots=True)
class _Held(Generic[Template, Access, Clone]):
    """What stands ready of one seed.

    Attributes:
        living: Clones that episodes have; while there are any, it is not let go.
    """

    template: Template
    pools: dict[Access, WarmPool[Clone]] = field(default_factory=dict)
    living: int = 0


class Pools(Generic[Seed, Template, Access, Clone]):
    """The templates and warm clones of one place, made at their first lease.

    Args:
        place: It is this object's own, and ends with it.
    """

    def __init__(self, place: Place[Seed, Template, Access, Clone]) -> None:
        self._place = place
        self._held: dict[str, _Held[Template, Access, Clone]] = {}
        self._lock = threading.Lock()
        self._counting = threading.Lock()

    @property
    def alive(self) -> bool:
        """Whether the place can still be used."""
        return self._place.alive

    def lease(self, seed: Seed, access: Access, *, pool_size: int) -> Clone:
        """Return a fresh clone of a seed; the caller closes it.

        Args:
            seed: Found by its digest.
            access: What the agent may do.
            pool_size: Clones kept ready for this seed and access; the first call
                says.

        Raises:
            SnapshotError: If the seed's SQL fails.
            SandboxError: If no clone can be made.
        """
        with self._lock:
            held = self._hold(seed)
            self._count(held, 1)
            if access not in held.pools:
                make = partial(self._place.clone, held.template, access)
                held.pools[access] = WarmPool(make, size=pool_size, what="database")
            pool = held.pools[access]
        try:
            clone = pool.lease()
        except BaseException:
            self._count(held, -1)
            raise
        clone.when_closed(partial(self._count, held, -1))
        return clone

    def rest(self) -> None:
        """Wait until what shall stand ready does.

        Raises:
            SandboxError: If that fails.
        """
        for held in list(self._held.values()):
            for pool in list(held.pools.values()):
                pool.rest()

    def drain(self) -> None:
        """Drop the clones that stand ready; the next lease makes others."""
        with self._lock:
            for held in self._held.values():
                _drain(held)

    def close(self) -> None:
        """End all; a place that is gone already leaves nothing to drop.

        An episode that nobody closed may hold what the maker of clones waits for.
        """
        self._place.interrupt()
        for held in self._held.values():
            for pool in held.pools.values():
                with contextlib.suppress(WorldError):
                    pool.close()
            with contextlib.suppress(WorldError):
                self._place.drop(held.template)
        with contextlib.suppress(WorldError):
            self._place.close()

    def _hold(self, seed: Seed) -> _Held[Template, Access, Clone]:
        """Return what there is of a seed, as the last that was asked for."""
        held = self._held.pop(seed.digest, None)
        if held is None:
            self._make_room()
            held = _Held(self._place.template(seed))
        self._held[seed.digest] = held
        return held

    def _make_room(self) -> None:
        """Let go of seeds that no episode plays."""
        idle = [digest for digest, held in self._held.items() if not held.living]
        for digest in idle[: max(0, len(self._held) - KEPT_SEEDS + 1)]:
            held = self._held.pop(digest)
            _drain(held)
            self._place.drop(held.template)

    def _count(self, held: _Held[Template, Access, Clone], change: int) -> None:
        with self._counting:
            held.living += change


def _drain(held: _Held[Any, Any, Any]) -> None:
    while held.pools:
        _, pool = held.pools.popitem()
        pool.close()
