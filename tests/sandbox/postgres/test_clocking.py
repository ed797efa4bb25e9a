"""A session lives by the harness's clock and seed; its time limits stay real."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.sandbox.postgres import clocking
from rlvr_envs.sandbox.postgres.clocking import ClockTable, Session, SessionClocks
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster, Connection
from rlvr_envs.sandbox.postgres.lingering import Lingering
from rlvr_envs.sandbox.postgres.roles import Access
from rlvr_envs.sandbox.postgres.seeds import EPOCH_S, Seed
from rlvr_envs.sandbox.postgres.server import EmbeddedServer
from rlvr_envs.sandbox.postgres.templates import Template
from tests.databases import MakeClone
from tests.processes import eventually

NOON_S = 1_800_014_400.0

LOG = Seed("""
CREATE TABLE log (id int PRIMARY KEY, at timestamptz DEFAULT now(),
  exact timestamptz DEFAULT clock_timestamp(), token uuid DEFAULT gen_random_uuid(),
  ordered uuid DEFAULT uuidv7(), drawn float8 DEFAULT random());
INSERT INTO log VALUES (0);
""")
STATEMENTS = (
    "SELECT * FROM log",
    "INSERT INTO log VALUES (1) RETURNING at, exact, token, ordered, drawn",
    "SELECT now(), CURRENT_TIMESTAMP, LOCALTIME, 'now'::timestamptz, timeofday()",
    "SELECT clock_timestamp(), statement_timestamp(), pg_sleep(0.01), random()",
    "SELECT setseed(0.5), random(), random_normal(), random(1, 10)",
    "SELECT array_shuffle(ARRAY[1,2,3,4,5,6,7,8])",
    "SELECT i FROM generate_series(1, 9) AS i ORDER BY random()",
    "SELECT count(*) FROM generate_series(1, 9), log TABLESAMPLE BERNOULLI (50)",
    "SELECT clock_timestamp() FROM generate_series(1, 3)",
    "DO $$ BEGIN UPDATE log SET exact = clock_timestamp(), token = uuidv4(); END $$",
    "SELECT * FROM log ORDER BY id",
)


@pytest.fixture(autouse=True, scope="module")
def clocked(cluster: Cluster) -> None:
    """Nothing here can be held without a clock to set."""
    if cluster.clock is None:
        pytest.skip(str(cluster.clockless))


@pytest.fixture(scope="module")
def log(cluster: Cluster) -> Template:
    """A template whose seed reads the clock."""
    return Template(cluster, LOG)


def shown(template: Template, *, seed: int = 7) -> str:
    clone = make_clone(template.cluster.filler(), template, Access())
    clone.set_clock(NOON_S, seed=seed)
    agent = clone.open_agent()
    seen = []
    for turn, statement in enumerate(STATEMENTS):
        clone.set_clock(NOON_S + turn)
        found = agent.execute(statement.encode())
        seen.append(str(found.fetchall()) if found.description else found.statusmessage)
    clone.close()
    return "\n".join(map(str, seen))


def one(connection: Connection, query: str) -> object:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def set_noon(clone: Clone) -> Connection:
    clone.set_clock(NOON_S, seed=1)
    return clone.open_agent()


def test_twenty_episodes_say_the_same_bytes(log: Template) -> None:
    assert len({shown(log) for _ in range(20)}) == 1
    assert shown(log, seed=8) != shown(log)


def test_two_processes_say_the_same_bytes(log: Template) -> None:
    code = (
        "from rlvr_envs.sandbox.postgres.cluster import Cluster\n"
        "from rlvr_envs.sandbox.postgres.templates import Template\n"
        "from tests.sandbox.postgres.test_clocking import LOG, shown\n"
        "cluster = Cluster.start()\n"
        "print(shown(Template(cluster, LOG)))\n"
        "cluster.close()\n"
    )

    other = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert other.stdout.rstrip("\n") == shown(log)


def test_a_turn_starts_at_its_own_moment(clone_of: MakeClone) -> None:
    clone = clone_of()
    agent = set_noon(clone)
    one(agent, "SELECT now()")

    clone.set_clock(NOON_S + 3600)

    now = one(agent, "SELECT now()")
    assert isinstance(now, datetime)
    assert 0 < now.timestamp() - NOON_S - 3600 < 0.001


def test_a_clock_never_goes_back(clone_of: MakeClone) -> None:
    clone = clone_of()
    agent = set_noon(clone)
    before = one(agent, "SELECT clock_timestamp()")

    clone.set_clock(NOON_S - 3600)

    assert isinstance(before, datetime)
    assert before < one(agent, "SELECT clock_timestamp()")  # type: ignore[operator]


def test_a_wait_takes_its_time(clone_of: MakeClone) -> None:
    agent = set_noon(clone_of())
    began = time.monotonic()

    row = agent.execute(
        "SELECT clock_timestamp(), pg_sleep(0.2), clock_timestamp()"
    ).fetchone()

    assert row is not None
    assert time.monotonic() - began >= 0.2
    assert 0.19 < (row[2] - row[0]).total_seconds() < 0.21  # type: ignore[operator]


def test_a_second_session_draws_other_numbers(clone_of: MakeClone) -> None:
    clone = clone_of()
    first, second = set_noon(clone), clone.open_agent()

    tokens = {one(session, "SELECT uuidv4()") for session in (first, second)}

    assert len(tokens) == 2


def test_the_stream_goes_on_from_turn_to_turn(clone_of: MakeClone) -> None:
    clone = clone_of()
    agent = set_noon(clone)
    tokens = set()

    for turn in range(5):
        clone.set_clock(NOON_S + turn)
        tokens.add(one(agent, "SELECT gen_random_uuid()"))

    assert len(tokens) == 5


def test_a_services_session_may_follow(clone_of: MakeClone, cluster: Cluster) -> None:
    clone = clone_of()
    clone.set_clock(NOON_S, seed=1)

    with cluster.connect(clone.name) as service:
        clone.follow_clock(service)

        assert str(one(service, "SELECT now()::date")) == "2027-01-15"


def test_another_partys_session_follows(clone_of: MakeClone) -> None:
    clone = clone_of()
    clone.set_clock(NOON_S, seed=1)

    with clone.open_party() as party:
        clone.follow_clock(party)

        assert str(one(party, "SELECT now()::date")) == "2027-01-15"
    assert len(clone._clocks._sessions) == 1


def test_harness_and_grader_keep_the_real_clock(clone_of: MakeClone) -> None:
    clone = clone_of()
    one(set_noon(clone), "SELECT now()")
    clone.freeze()

    for connection in (clone.admin, clone.grader()):
        now = one(connection, "SELECT now()")
        assert isinstance(now, datetime)
        assert abs((now - datetime.now(UTC)).total_seconds()) < 60  # noqa: TID251 - the host's


def test_a_cell_of_an_earlier_process_is_no_ones(
    clone_of: MakeClone, cluster: Cluster
) -> None:
    clone = clone_of()
    session = Session(clone.admin.info.backend_pid)
    session.born_ticks -= 1
    assert cluster.clock is not None

    cluster.clock.set(session, epoch_s=NOON_S, seed=0)

    now = one(clone.admin, "SELECT now()")
    assert isinstance(now, datetime)
    assert now.timestamp() < NOON_S


@pytest.mark.parametrize(
    "busy",
    [
        "SELECT pg_sleep(20)",
        "SELECT count(*) FROM generate_series(1, 10000000000)",
        "DO $$ DECLARE t timestamptz; BEGIN LOOP t := clock_timestamp(); END LOOP; END $$",
    ],
)
def test_a_statement_timeout_is_real(clone_of: MakeClone, busy: str) -> None:
    clone = clone_of()
    agent = set_noon(clone)
    one(agent, "SELECT 1")
    # Its alarm is set already, and must not be taken for the one to come.
    clone.set_clock(NOON_S + 29)
    agent.execute("SET statement_timeout = '200ms'")
    began = time.monotonic()

    with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
        agent.execute(busy.encode())

    assert 0.2 <= time.monotonic() - began < 5
    assert one(agent, "SELECT 1") == 1


def test_an_old_alarm_stops_no_later_statement(clone_of: MakeClone) -> None:
    clone = clone_of()
    agent = set_noon(clone)
    agent.execute("SET statement_timeout = '1500ms'")
    began = time.monotonic()

    # Together they take longer than the limit, each far less, on a busy machine too.
    while time.monotonic() - began < 2.5:
        agent.execute("SELECT pg_sleep(0.2)")


def test_an_idle_transaction_is_ended(clone_of: MakeClone) -> None:
    clone = clone_of()
    agent = set_noon(clone)
    agent.execute("SET transaction_timeout = '200ms'")
    agent.execute("BEGIN")
    agent.execute("SELECT 1")

    count = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
    pid = agent.info.backend_pid
    assert eventually(
        lambda: clone.admin.execute(count, [pid]).fetchone() == (0,), within_s=5.0
    )


def test_a_deadlock_is_found_whatever_the_clocks_say(clone_of: MakeClone) -> None:
    clone = clone_of()
    first, second = set_noon(clone), clone.open_agent()
    one(first, "SELECT 1")
    one(second, "SELECT 1")
    clone.set_clock(NOON_S + 29.5)
    for session, order in ((first, 1), (second, 2)):
        session.execute("BEGIN")
        session.execute("UPDATE orders SET total = 0 WHERE id = %s", [order])
    began = time.monotonic()

    with ThreadPoolExecutor(2) as threads:
        states = list(threads.map(taking, (first, second), (2, 1)))

    assert sorted(states) == ["", "40P01"]
    assert time.monotonic() - began < 10


def taking(session: Connection, order: int) -> str:
    try:
        session.execute("UPDATE orders SET total = 1 WHERE id = %s", [order])
    except psycopg.Error as error:
        session.execute("ROLLBACK")
        return error.sqlstate or "?"
    return ""


def test_a_seeds_own_time_is_fixed(log: Template, cluster: Cluster) -> None:
    clone = make_clone(cluster.filler(), log, Access())

    at = one(clone.admin, "SELECT at FROM public.log")

    assert isinstance(at, datetime)
    assert round(at.timestamp()) == EPOCH_S
    assert Seed(LOG.script, EPOCH_S + 1).digest != LOG.digest
    clone.close()


def test_somebody_elses_server_keeps_its_clock(cluster: Cluster) -> None:
    stranger = Cluster(cluster._conninfo)
    template = Template(stranger, LOG)
    clone = make_clone(stranger.filler(), template, Access())

    clone.set_clock(NOON_S, seed=1)

    assert not clone.virtual_clock
    now = one(clone.open_agent(), "SELECT now()")
    assert isinstance(now, datetime)
    assert now.timestamp() < NOON_S
    clone.close()
    stranger.close()


def test_a_missing_compiler_is_told_when_a_clock_is_set(
    clone_of: MakeClone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    clocking._library.cache_clear()
    with EmbeddedServer() as server:
        clockless = server.clockless
    clone = clone_of()
    clone._cluster.clockless = clockless
    try:
        with pytest.raises(MissingRequirement, match="gcc"):
            clone.set_clock(NOON_S)
    finally:
        clone._cluster.clockless = None


def test_a_session_that_ended_is_told_nothing(
    clone_of: MakeClone, cluster: Cluster, tmp_path: Path
) -> None:
    agent = clone_of().open_agent()
    table = ClockTable(tmp_path / "clock")
    clocks = SessionClocks(table)
    clocks.follow(agent)
    agent.close()

    clocks.set(NOON_S, 1)

    blocks = (tmp_path / "clock").stat().st_blocks
    table.close()
    assert blocks == 0


def test_a_write_that_stays_open_is_ended_by_our_clock(
    clone_of: MakeClone,
) -> None:
    clone = clone_of()
    agent = set_noon(clone)
    agent.execute("BEGIN")
    agent.execute("DELETE FROM orders")
    now_s = [100.0]
    lingering = Lingering(lambda: now_s[0], undo=lambda _: None)

    assert lingering.end(clone.admin, limit_s=60) == ()
    now_s[0] += 61
    assert lingering.end(clone.admin, limit_s=60) == (agent.info.backend_pid,)
    gone = clone.admin.execute
    count = "SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
    assert eventually(lambda: gone(count).fetchone() == (0,))
