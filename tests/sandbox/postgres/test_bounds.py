"""What one episode takes of a server that it shares, and what becomes of the others."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from rlvr_envs.envs.sql_rest.session import SqlSession
from rlvr_envs.errors import SandboxError
from rlvr_envs.records import Outcome
from rlvr_envs.sandbox.postgres.bounds import OUTLIVED
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.server import EmbeddedServer
from rlvr_envs.sandbox.postgres.templates import Template
from tests.databases import SHOP, MakeClone
from tests.verifiers.builders import check
from tests.verifiers.databases import GraderQueries, facts_of_clone, judged

MIB = 1 << 20
ENDLESS = "1000000) AS a, generate_series(1, 1000000"
"""In the place of a number of rows."""
SMALL = Access(Rights.WRITE, disk_mib=16, log_mib=4)
HEEDLESS = "SELECT length(translate(repeat('a', {n}), repeat('b', {n}), ''))"
"""Looks at its whole second text for each letter of its first, and at nothing else."""

SHIP = "UPDATE orders SET status = 'shipped' WHERE id = 3"
SHIPPED = check(
    "sql_invariant",
    statement="SELECT status FROM public.orders WHERE id = 3",
    expect={"scalar": "shipped"},
)

Make = Callable[[Access], Clone]


@pytest.fixture
def clone_with(cluster: Cluster, shop: Template) -> Iterator[Make]:
    made = []

    def make(access: Access) -> Clone:
        clone = make_clone(cluster.filler(), shop, access)
        clone.set_clock(1_700_000_000, seed=1)
        made.append(clone)
        return clone

    yield make
    for clone in made:
        clone.close()
    cluster.settle()


def verdict(clone: Clone, folder: Path) -> Outcome:
    return judged(
        folder,
        facts_of_clone(clone),
        runner=GraderQueries(clone=clone),
        checks=(SHIPPED,),
        writes=("/rows/public.orders/3",),
    )


def failed(outcome: Outcome) -> dict[str, str]:
    return {each.name: each.reason for each in outcome.checks if not each.passed}


def filling(kib: int | str, *, persistence: str = "TEMP") -> str:
    rows = f"repeat('x', 900) AS x FROM generate_series(1, {kib})"
    return f"CREATE {persistence} TABLE filled AS SELECT {rows}"


# The log.

LOGGED = "INSERT INTO notes SELECT repeat('x', 900) FROM generate_series(1, {kib})"


def test_who_fills_the_log_is_stopped_and_cannot_win(
    clone_with: Make, tmp_path: Path
) -> None:
    clone = clone_with(SMALL)
    session = SqlSession(clone)
    session.sql(SHIP)

    told = session.sql(LOGGED.format(kib=8 * 1024))

    assert "more than 4 MiB of the server's log were written" in told.text
    outcome = verdict(clone, tmp_path)
    assert (outcome.status, outcome.reward) == ("failed", 0.0)
    assert "server's log" in failed(outcome)["limits"]


def test_a_statement_that_goes_on_writing_is_ended_before_it_is_over(
    clone_with: Make,
) -> None:
    session = SqlSession(clone_with(SMALL))

    told = session.sql(LOGGED.format(kib=ENDLESS))

    assert not told.ok
    assert not told.timed_out
    assert session.over


def test_what_was_undone_and_what_several_sessions_wrote_counts(
    clone_with: Make,
) -> None:
    clone = clone_with(SMALL)
    sessions = SqlSession(clone), SqlSession(clone)
    for session in sessions:
        session.sql("BEGIN")
        session.sql(LOGGED.format(kib=1536))
        session.sql("ROLLBACK")
    assert not clone.overruns

    sessions[0].sql(LOGGED.format(kib=1536))

    assert clone.overruns


def test_an_honest_write_below_the_limit_passes(
    clone_with: Make, tmp_path: Path
) -> None:
    clone = clone_with(SMALL)
    session = SqlSession(clone)
    session.sql("CREATE TEMP TABLE seen AS SELECT * FROM orders")
    session.sql("BEGIN")
    session.sql(LOGGED.format(kib=2 * 1024))
    session.sql("ROLLBACK")
    session.sql(SHIP)

    assert not session.over
    assert verdict(clone, tmp_path).reward == 1.0


def test_a_neighbour_whose_log_was_cut_is_void_and_never_failed(
    tmp_path: Path,
) -> None:
    with scratch(tmp_path, max_slot_wal_keep_size="1MB") as (cluster, template):
        clone = make_clone(cluster.filler(), template, Access(Rights.WRITE))
        SqlSession(clone).sql(SHIP)
        others = make_clone(cluster.filler(), template, Access(Rights.WRITE))
        SqlSession(others).sql(LOGGED.format(kib=48 * 1024))
        for _ in range(2):
            cluster.admin.execute("SELECT pg_switch_wal()")
            cluster.admin.execute("CHECKPOINT")

        with pytest.raises(SandboxError, match="others wrote too much"):
            verdict(clone, tmp_path / "void")
        clone.close()
        others.close()


def test_a_writer_whose_log_was_cut_fails(tmp_path: Path) -> None:
    with scratch(tmp_path, max_slot_wal_keep_size="1MB") as (cluster, template):
        clone = make_clone(cluster.filler(), template, SMALL)
        session = SqlSession(clone)
        session.sql(SHIP)
        session.sql(LOGGED.format(kib=48 * 1024))
        for _ in range(2):
            cluster.admin.execute("SELECT pg_switch_wal()")
            cluster.admin.execute("CHECKPOINT")

        outcome = verdict(clone, tmp_path / "failed")

        assert (outcome.status, outcome.reward) == ("failed", 0.0)
        assert {"limits", "audit"} <= set(failed(outcome))
        clone.close()


def test_a_clone_that_stood_ready_while_others_wrote_is_known(
    clone_with: Make, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = clone_with(SMALL)
    monkeypatch.setattr("rlvr_envs.sandbox.postgres.clone.OLDEST_BYTES", MIB)
    assert cluster.alive
    assert not clone.stale

    SqlSession(clone_with(Access(Rights.WRITE))).sql(LOGGED.format(kib=2 * 1024))

    assert cluster.alive
    assert clone.stale


# The disk.


@pytest.mark.parametrize("persistence", ["TEMP", "UNLOGGED"])
def test_who_fills_the_disk_is_stopped_and_cannot_win(
    clone_with: Make, tmp_path: Path, persistence: str
) -> None:
    clone = clone_with(Access(Rights.DEFINE, disk_mib=16))
    session = SqlSession(clone)
    session.sql(SHIP)

    told = session.sql(filling(64 * 1024, persistence=persistence))

    assert "the database grew by more than 16 MiB" in told.text
    outcome = verdict(clone, tmp_path)
    assert outcome.reward == 0.0
    assert "grew" in failed(outcome)["limits"]


def test_a_disk_that_is_filled_little_by_little_is_noticed(clone_with: Make) -> None:
    clone = clone_with(SMALL)
    session = SqlSession(clone)
    session.sql("CREATE TEMP TABLE filled (x text)")

    for _ in range(24):
        if not session.over:
            session.sql(
                "INSERT INTO filled "
                "SELECT repeat('x', 900) FROM generate_series(1, 1024)"
            )

    assert "grew by more than 16 MiB" in session.over


def test_a_statement_that_goes_on_filling_is_ended_before_it_is_over(
    clone_with: Make,
) -> None:
    session = SqlSession(clone_with(SMALL))

    told = session.sql(filling(ENDLESS))

    assert not told.ok
    assert not told.timed_out
    assert "grew by more than 16 MiB" in session.over


def test_honest_tables_below_the_limit_pass(clone_with: Make, tmp_path: Path) -> None:
    clone = clone_with(SMALL)
    session = SqlSession(clone)
    for _ in range(4):
        session.sql(filling(8 * 1024))
        session.sql("DROP TABLE filled")
    session.sql(SHIP)

    assert not session.over
    assert verdict(clone, tmp_path).reward == 1.0


# Memory.


def test_a_value_beyond_a_sessions_memory_is_an_error(clone_with: Make) -> None:
    session = SqlSession(clone_with(SMALL))

    told = session.sql("SELECT length(repeat('x', 300000000))")

    assert "53200" in told.text
    assert session.sql("SELECT length(repeat('x', 30000000))").ok


def test_the_largest_value_that_an_agent_can_store_is_graded(
    clone_with: Make, tmp_path: Path
) -> None:
    clone = clone_with(Access(Rights.WRITE))
    session = SqlSession(clone)
    stored = 0
    for mb in (120, 90, 60):
        made = f"INSERT INTO notes SELECT repeat('x', {mb}000000)"
        if not stored and session.sql(made).ok:
            stored = mb

    assert stored
    assert verdict(clone, tmp_path).status == "failed"


# Locks, and notifications.


def test_thousands_of_tables_in_one_transaction_leave_room_for_neighbours(
    clone_with: Make, clone_of: MakeClone
) -> None:
    neighbour = SqlSession(clone_of(Rights.WRITE))
    session = SqlSession(clone_with(Access(Rights.WRITE)))
    session.sql("BEGIN")
    made = session.sql(
        "DO $$ BEGIN FOR i IN 1..6000 LOOP "
        "EXECUTE format('CREATE TEMP TABLE l%s (i int PRIMARY KEY, t text)', i); END LOOP; END $$"
    )
    assert made.ok, made.text
    assert not session.over

    assert neighbour.sql("CREATE TEMP TABLE seen AS SELECT * FROM orders").ok
    assert neighbour.sql(SHIP).ok
    session.sql("ROLLBACK")


@pytest.mark.parametrize(
    "statement",
    ["LISTEN c", "/* */ listen c", "DO $$ BEGIN EXECUTE 'LISTEN c'; END $$"],
)
def test_nobody_listens(clone_of: MakeClone, statement: str) -> None:
    told = SqlSession(clone_of(Rights.WRITE)).sql(statement)

    assert not told.ok
    assert "0A000: LISTEN is not available here" in told.text


def test_notifications_leave_room_for_neighbours(
    clone_of: MakeClone, cluster: Cluster
) -> None:
    session = SqlSession(clone_of(Rights.WRITE))
    fill = (
        "SELECT count(pg_notify('c', i || repeat('x', 7900)))"
        " FROM generate_series(1, 4000) AS i"
    )
    for _ in range(4):
        assert session.sql(fill).ok

    used = cluster.admin.execute("SELECT pg_notification_queue_usage()").fetchone()

    assert used is not None
    assert float(str(used[0])) < 0.04
    assert SqlSession(clone_of(Rights.WRITE)).sql("NOTIFY c, 'honest'").ok


# The end of a session.


def test_a_session_that_heeds_nobody_ends_the_episode_and_cannot_win(
    clone_with: Make, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlvr_envs.sandbox.postgres.clone._HEED_MS", 100)
    monkeypatch.setattr("rlvr_envs.envs.sql_rest.wire._GRACE_S", 0.1)
    clone = clone_with(Access(Rights.WRITE))
    SqlSession(clone).sql(SHIP)
    session = SqlSession(clone, step_timeout_s=0.2)

    told = session.sql(HEEDLESS.format(n=30_000))

    assert told.timed_out
    assert OUTLIVED in session.over
    outcome = verdict(clone, tmp_path)
    assert (outcome.status, outcome.reward) == ("failed", 0.0)
    assert failed(outcome)["limits"] == OUTLIVED


def test_a_session_that_outlives_the_freeze_is_graded_and_cannot_win(
    clone_with: Make, cluster: Cluster, tmp_path: Path
) -> None:
    clone = clone_with(Access(Rights.WRITE))
    SqlSession(clone).sql(SHIP)
    heedless(clone, "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")

    clone.freeze(limit_s=0.1)
    outcome = verdict(clone, tmp_path)

    assert (outcome.status, outcome.reward) == ("failed", 0.0)
    assert failed(outcome)["limits"] == OUTLIVED
    assert "audit" in failed(outcome)


def test_what_heeds_nobody_is_dropped_once_it_ended(tmp_path: Path) -> None:
    with scratch(tmp_path) as (cluster, template):
        before = cluster.census()
        clone = make_clone(cluster.filler(), template, Access(Rights.WRITE))
        heedless(clone, "SELECT 1")
        clone.freeze(limit_s=0.1)
        clone.close()

        cluster.settle()

        left = cluster.census()
        assert cluster.worn
        assert left["databases"] == before["databases"] + 1
        assert left["slots"] == before["slots"]
        deadline = time.monotonic() + 60
        while cluster.lingering.left and time.monotonic() < deadline:
            threading.Event().wait(0.05)
        assert clone.name not in {*cluster.databases(), *cluster.roles()}


def test_a_role_that_a_session_holds_does_not_stop_the_freeze(
    clone_with: Make, tmp_path: Path
) -> None:
    clone = clone_with(Access(Rights.WRITE))
    session = SqlSession(clone)
    session.sql(SHIP)
    session.sql("BEGIN")
    session.sql("ALTER ROLE CURRENT_USER PASSWORD 'mine'")

    outcome = verdict(clone, tmp_path)

    assert (outcome.reward, failed(outcome)) == (1.0, {})


def heedless(clone: Clone, first: str) -> None:
    """Leave a session in a statement that looks for no interrupts for a while."""
    session = clone.open_agent()
    session.execute("BEGIN")
    session.execute(first.encode())
    session.pgconn.send_query_params(HEEDLESS.format(n=20_000).encode(), None)
    deadline = time.monotonic() + 30
    busy = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
    while time.monotonic() < deadline:
        session.pgconn.flush()
        if clone.admin.execute(busy, [session.info.backend_pid]).fetchone():
            return
    raise AssertionError("the statement did not begin")


@contextlib.contextmanager
def scratch(folder: Path, **settings: str) -> Iterator[tuple[Cluster, Template]]:
    """A server of one test's own: what it leaves running is nobody else's."""
    server = EmbeddedServer(settings=settings)
    cluster = Cluster(server.conninfo, server)
    template = Template(cluster, SHOP)
    try:
        yield cluster, template
    finally:
        template.close()
        cluster.interrupt()
        with contextlib.suppress(SandboxError, psycopg.Error):
            cluster.close()
