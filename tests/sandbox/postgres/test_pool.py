"""Clones come quickly, many at once, and leave nothing behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from typing_extensions import override

from rlvr_envs.errors import CallerError, SandboxError
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.roles import Access
from rlvr_envs.sandbox.postgres.templates import Template, unless_busy
from rlvr_envs.sandbox.warming import WarmPool


def pool_of(template: Template, access: Access, *, size: int = 4) -> WarmPool[Clone]:
    def make() -> Clone:
        return make_clone(template.cluster.filler(), template, access)

    return WarmPool(make, size=size, what="database")


def test_sixteen_at_once_while_a_client_wants_the_template(
    cluster: Cluster, shop: Template
) -> None:
    cluster.settle()
    databases, roles = cluster.databases(), cluster.roles()
    pool = pool_of(shop, Access(), size=2)
    with pytest.raises(SandboxError, match="not currently accepting connections"):
        cluster.connect(shop.name)

    with ThreadPoolExecutor(16) as threads:
        clones = list(threads.map(lambda _: pool.lease(), range(16)))

    assert len({clone.name for clone in clones}) == 16
    for clone in clones:
        count = clone.open_agent().execute("SELECT count(*) FROM orders")
        assert count.fetchone() == (20,)
        clone.close()
    pool.close()
    cluster.settle()
    assert cluster.databases() == databases
    assert cluster.roles() == roles
    slots = cluster.admin.execute("SELECT count(*) FROM pg_replication_slots")
    assert slots.fetchone() == (0,)


def test_clones_do_not_see_each_others_rows(cluster: Cluster, shop: Template) -> None:
    pool = pool_of(shop, Access(), size=1)
    first, second = pool.lease(), pool.lease()

    first.open_agent().execute("DELETE FROM orders")

    count = second.open_agent().execute("SELECT count(*) FROM orders")
    assert count.fetchone() == (20,)
    first.close()
    second.close()
    pool.close()


def test_an_agent_cannot_enter_a_neighbours_database(
    cluster: Cluster, shop: Template
) -> None:
    pool = pool_of(shop, Access(), size=1)
    first, second = pool.lease(), pool.lease()

    with pytest.raises(SandboxError, match="permission denied for database"):
        cluster.connect(second.name, user=first.name, password=first._password)

    first.close()
    second.close()
    pool.close()


def test_who_writes_beside_the_agent_finds_a_session_ready(
    cluster: Cluster, shop: Template
) -> None:
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s"
    pool = pool_of(shop, Access(has_party=True), size=1)
    clone = pool.lease()
    pool.rest()
    before = cluster.admin.execute(sessions, [cluster.party]).fetchone()

    party = clone.open_party()
    after = cluster.admin.execute(sessions, [cluster.party]).fetchone()

    assert before == after == (2,)
    assert party.execute("SELECT current_user").fetchone() == (cluster.party,)
    with clone.open_party() as another:
        assert another is not party
    party.close()
    clone.close()
    pool.close()
    cluster.settle()
    assert cluster.admin.execute(sessions, [cluster.party]).fetchone() == (0,)


def test_a_closed_pool_leases_nothing(shop: Template) -> None:
    pool = pool_of(shop, Access())
    pool.close()

    with pytest.raises(CallerError, match="closed"):
        pool.lease()


def test_a_pool_holds_at_least_one(shop: Template) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        pool_of(shop, Access(), size=0)


def test_an_open_write_elsewhere_does_not_stop_new_clones_for_ever(
    cluster: Cluster, shop: Template
) -> None:
    pool = pool_of(shop, Access(transaction_timeout_s=0.5), size=1)
    holder = pool.lease()
    agent = holder.open_agent()
    agent.execute("SET transaction_timeout = 0")
    agent.execute("SET idle_in_transaction_session_timeout = 0")
    agent.execute("BEGIN")
    agent.execute("UPDATE orders SET total = 0")

    clones = [pool.lease() for _ in range(3)]

    with pytest.raises(psycopg.OperationalError):
        agent.execute("COMMIT")
    for clone in (holder, *clones):
        clone.close()
    pool.close()


def test_a_busy_database_is_waited_for() -> None:
    tries = []

    def action() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise psycopg.errors.ObjectInUse

    unless_busy(action)

    assert len(tries) == 3


def test_a_failure_reaches_the_one_that_waits(cluster: Cluster) -> None:
    class Broken(Template):
        def __init__(self) -> None:
            self.cluster = cluster

        @override
        def clone_to(self, admin: object, name: str) -> None:
            raise SandboxError("no room")

    pool = pool_of(Broken(), Access())

    for _ in range(2):
        with pytest.raises(SandboxError, match="no room"):
            pool.lease()
    pool.close()
