"""What stands ready of seeds, whatever engine keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.pooling import KEPT_SEEDS, Pools


@dataclass(frozen=True)
class Seed:
    digest: str


@dataclass
class Clone:
    """Tells when it is closed."""

    template: str
    tell: list[Callable[[], None]] = field(default_factory=list)

    def when_closed(self, tell: Callable[[], None]) -> None:
        self.tell.append(tell)

    def close(self) -> None:
        while self.tell:
            self.tell.pop()()


class Place:
    """Remembers what happened to it.

    Attributes:
        broken: Whether all fails that can.
    """

    alive = True

    def __init__(self) -> None:
        self.told: list[str] = []
        self.broken = False

    def template(self, seed: Seed) -> str:
        self.told.append(f"load {seed.digest}")
        return seed.digest

    def clone(self, template: str, access: str) -> Clone:
        self._may_fail()
        return Clone(template)

    def drop(self, template: str) -> None:
        self.told.append(f"drop {template}")
        self._may_fail()

    def interrupt(self) -> None:
        self.told.append("interrupt")

    def close(self) -> None:
        self.told.append("close")
        self._may_fail()

    def _may_fail(self) -> None:
        if self.broken:
            raise SandboxError("no room")


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
def pools(place: Place) -> Iterator[Pools[Seed, str, str, Clone]]:
    pools = Pools[Seed, str, str, Clone](place)
    yield pools
    pools.close()


def test_a_seed_is_loaded_once(
    place: Place, pools: Pools[Seed, str, str, Clone]
) -> None:
    for access in ("read", "write", "read"):
        pools.lease(Seed("s"), access, pool_size=1).close()

    assert place.told == ["load s"]


def test_the_seed_that_was_leased_longest_ago_is_let_go_unless_it_is_played(
    place: Place, pools: Pools[Seed, str, str, Clone]
) -> None:
    played = pools.lease(Seed("played"), "read", pool_size=1)
    for n in range(1, KEPT_SEEDS):
        pools.lease(Seed(f"{n}"), "read", pool_size=1).close()
    pools.lease(Seed("1"), "read", pool_size=1).close()
    place.told.clear()

    pools.lease(Seed("a"), "read", pool_size=1).close()
    played.close()
    pools.lease(Seed("b"), "read", pool_size=1).close()

    assert place.told == ["drop 2", "load a", "drop played", "load b"]


def test_a_lease_that_failed_plays_nothing(place: Place) -> None:
    place.broken = True
    pools = Pools[Seed, str, str, Clone](place)
    with pytest.raises(SandboxError, match="no room"):
        pools.lease(Seed("broken"), "read", pool_size=1)
    place.broken = False

    for n in range(KEPT_SEEDS):
        pools.lease(Seed(f"{n}"), "read", pool_size=1)

    assert "drop broken" in place.told
    pools.close()


def test_closing_goes_on_where_all_is_gone(place: Place) -> None:
    pools = Pools[Seed, str, str, Clone](place)
    for name in ("a", "b"):
        pools.lease(Seed(name), "read", pool_size=1)
    place.broken = True
    place.told.clear()

    pools.close()

    assert place.told == ["interrupt", "drop a", "drop b", "close"]
