"""A pool of things made ahead: how many stand ready, and who waits."""

from __future__ import annotations

import pytest

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.warming import WarmPool


class Thing:
    """Counts those that are alive."""

    alive = 0

    def __init__(self) -> None:
        Thing.alive += 1

    def close(self) -> None:
        Thing.alive -= 1


def test_no_more_stand_ready_than_were_ever_wanted() -> None:
    Thing.alive = 0
    pool = WarmPool(Thing, size=3, what="thing")
    seen = []
    for _ in range(5):
        pool.lease().close()
        pool.rest()
        seen.append(Thing.alive)
    pool.close()

    assert seen == [1, 2, 3, 3, 3]
    assert Thing.alive == 0


def test_a_pool_that_nobody_used_rests_at_once() -> None:
    pool = WarmPool(Thing, size=3, what="thing")

    pool.rest(timeout_s=0.01)

    pool.close()


def test_a_thing_that_cannot_be_made_keeps_nobody_waiting() -> None:
    def fail() -> Thing:
        raise SandboxError("No room.")

    pool = WarmPool(fail, size=1, what="thing")
    with pytest.raises(SandboxError, match="No thing: No room"):
        pool.lease(timeout_s=5)
    pool.rest(timeout_s=5)
    pool.close()
