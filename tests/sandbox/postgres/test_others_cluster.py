"""On somebody else's cluster an agent can do more; none of it outlives its episode."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.sandbox.postgres.clone import make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.lingering import Lingering
from rlvr_envs.sandbox.postgres.prepared import prepared, undo
from rlvr_envs.sandbox.postgres.roles import Access
from rlvr_envs.sandbox.postgres.server import EmbeddedServer
from rlvr_envs.sandbox.postgres.templates import Template
from tests.databases import SHOP

HBA = "local all postgres trust\nlocal all all scram-sha-256\n"
PREPARE = ("BEGIN", "DELETE FROM orders", "PREPARE TRANSACTION 'mine'")


@pytest.fixture(scope="module")
def theirs() -> Iterator[Cluster]:
    """A cluster that asks for passwords and keeps prepared transactions."""
    try:
        server = EmbeddedServer(settings={"max_prepared_transactions": "8"})
    except MissingRequirement as error:
        pytest.skip(str(error))
    with server:
        (server.folder / "data/pg_hba.conf").write_text(HBA)
        found = Cluster(server.conninfo)
        found.admin.execute("SELECT pg_reload_conf()")
        yield found
        found.close()


@pytest.fixture(scope="module")
def template(theirs: Cluster) -> Iterator[Template]:
    made = Template(theirs, SHOP)
    yield made
    made.close()


@pytest.mark.parametrize("password", ["'mine'", "NULL"])
def test_an_agent_that_changes_its_password_gets_in_again(
    theirs: Cluster, template: Template, password: str
) -> None:
    clone = make_clone(theirs.filler(), template, Access())
    agent = clone.open_agent()

    agent.execute(f"ALTER ROLE CURRENT_USER PASSWORD {password}".encode())

    count = clone.open_agent().execute("SELECT count(*) FROM orders")
    assert count.fetchone() == (20,)
    clone.freeze()
    assert clone.diff().empty
    clone.close()


def test_a_freeze_undoes_what_was_prepared(theirs: Cluster, template: Template) -> None:
    clone = make_clone(theirs.filler(), template, Access())
    agent = clone.open_agent()
    for statement in PREPARE:
        agent.execute(statement.encode())

    ended = clone.freeze()

    assert ended == ("prepared",)
    assert not prepared(theirs.admin)
    assert clone.diff().empty
    assert not clone.ledger().changes
    clone.close()


def test_what_is_prepared_keeps_no_database_from_its_end(
    theirs: Cluster, template: Template
) -> None:
    clone = make_clone(theirs.filler(), template, Access())
    agent = clone.open_agent()
    for statement in PREPARE:
        agent.execute(statement.encode())

    clone.close()
    theirs.settle()

    assert clone.name not in theirs.databases()
    assert clone.name not in theirs.roles()


def test_what_stays_prepared_is_undone_by_our_clock(
    theirs: Cluster, template: Template
) -> None:
    clone = make_clone(theirs.filler(), template, Access())
    agent = clone.open_agent()
    for statement in PREPARE:
        agent.execute(statement.encode())
    now_s = [100.0]
    lingering = Lingering(lambda: now_s[0], undo=lambda one: undo(clone.admin, one))

    assert lingering.end(theirs.admin, limit_s=60) == ()
    assert len(prepared(theirs.admin)) == 1
    now_s[0] += 61
    assert lingering.end(theirs.admin, limit_s=60) == ()
    assert not prepared(theirs.admin)
    clone.close()


def test_what_is_prepared_does_not_stop_new_clones_for_ever(
    theirs: Cluster, template: Template
) -> None:
    access = Access(transaction_timeout_s=0.5)
    holder = make_clone(theirs.filler(), template, access)
    agent = holder.open_agent()
    for statement in PREPARE:
        agent.execute(statement.encode())

    make_clone(theirs.filler(), template, access).close()

    assert not prepared(theirs.admin)
    holder.close()


UNCLOSED = """
import sys, threading, time
from rlvr_envs.sandbox.postgres import sharing
from rlvr_envs.sandbox.postgres.roles import Access
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.sharing import Source
seed, source = Seed("CREATE TABLE t AS SELECT 1 AS a;"), Source(sys.argv[1])
clones = [sharing.lease(seed, Access(), source=source, pool_size=2)]
sharing.rest()
agent = clones[0].open_agent()
agent.execute("BEGIN")
agent.execute("UPDATE t SET a = 2")
clones.append(sharing.lease(seed, Access(), source=source))
blocked = (
    "SELECT 1 FROM pg_stat_activity WHERE state = 'active' "
    "AND query LIKE '%FROM pg_create_' || 'logical%'"
)
deadline = time.monotonic() + 20
while clones[0].admin.execute(blocked).fetchone() is None:
    assert time.monotonic() < deadline
    threading.Event().wait(0.01)
print("held", flush=True)
"""


@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_an_unclosed_episode_that_holds_a_lock_delays_no_exit(
    theirs: Cluster, whose: str
) -> None:
    dsn = theirs._conninfo if whose == "theirs" else ""
    command = [sys.executable, "-c", UNCLOSED, dsn]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == "held\n"
        began_s = time.monotonic()

        status = trainer.wait(60)

    assert status == 0
    assert time.monotonic() - began_s < 5
