"""What a world of a database promises: its doors, its log, its end, its copies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import rlvr_envs  # noqa: F401 (registers)
from rlvr_envs.envs.infos import info_of
from rlvr_envs.errors import MissingRequirement, SnapshotError, TaskError
from rlvr_envs.records import ToolCategory
from rlvr_envs.relational import RowKind
from rlvr_envs.sandbox.postgres import sharing
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.tasks.scripts import gold
from tests.databases import READ_ONLY_ATTACKS
from tests.envs.sql_rest.worlds import (
    SUBMIT,
    TASK,
    call,
    facts,
    play,
    query,
    sql,
    taskset,
)

Make = Callable[..., gym.Env[Any, Any]]
WORLDS: dict[str, dict[str, Any]] = {
    "read": {"rights": "read"},
    "write": {"rights": "write"},
    "define": {"rights": "define", "define": ["public.orders"]},
}
SHIP = "UPDATE orders SET status = 'shipped' WHERE id = 3"


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[None]:
    """The shared server; it ends with this module."""
    yield
    sharing.close_clusters()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make environments on three small worlds; all are closed at the end."""
    tasks = str(taskset(tmp_path / "tasks", **WORLDS))
    with ExitStack() as closing:

        def build(task: str = "write", **kwargs: Any) -> gym.Env[Any, Any]:
            env = gym.make("rlvr/SqlRest-v0", tasks=tasks, task=task, **kwargs)
            closing.callback(env.close)
            try:
                env.reset(seed=1)
            except MissingRequirement as error:
                pytest.skip(str(error))
            return env

        yield build


def cluster_of(env: Any) -> Cluster:
    found: Cluster = env.unwrapped._world._clone.template.cluster
    return found


# -- doors ---------------------------------------------------------------------------


def test_a_look_sees_what_is_committed_and_no_more(make: Make) -> None:
    env = make()
    play(env, sql("BEGIN"), sql(SHIP))

    before = env.step(query("SELECT status FROM orders WHERE id = 3"))
    play(env, sql("COMMIT"))
    after = env.step(query("SELECT status FROM orders WHERE id = 3"))

    assert before[0] == "status\nopen\n(1 row)"
    assert after[0] == "status\nshipped\n(1 row)"


ESCAPES = (
    *(attack for attack in READ_ONLY_ATTACKS),
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET TRANSACTION READ WRITE",
    "COMMIT",
    "COMMIT AND CHAIN",
    "ROLLBACK",
    "BEGIN READ WRITE",
    "RESET ALL",
    "SET default_transaction_read_only = off",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT set_config('transaction_read_only', 'off', true), "
    "set_config('default_transaction_read_only', 'off', false)",
    "DO $$ BEGIN PERFORM set_config('transaction_read_only', 'off', true); "
    "UPDATE orders SET total = 0; END $$",
    "DO $$ BEGIN COMMIT; UPDATE orders SET total = 0; END $$",
    "DO $$ BEGIN ROLLBACK; SET TRANSACTION READ WRITE; UPDATE orders SET total = 0; END $$",
    "WITH gone AS (DELETE FROM orders RETURNING id) SELECT count(*) FROM gone",
    "EXPLAIN ANALYZE UPDATE orders SET total = 0",
    "PREPARE later AS UPDATE orders SET total = 0",
    "EXECUTE later",
    "DECLARE held CURSOR WITH HOLD FOR SELECT id FROM orders",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "SELECT * INTO kept FROM orders",
    "SELECT setval('tickets', 9)",
    "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE",
    "SAVEPOINT here",
    "PREPARE TRANSACTION 'x'",
    "GRANT ALL ON orders TO PUBLIC",
    "ALTER ROLE CURRENT_USER SET default_transaction_read_only = off",
)


def test_no_statement_gets_out_of_a_look(make: Make, tmp_path: Path) -> None:
    env = make(turns=3 * len(ESCAPES))
    touched = tmp_path / "p"
    for statement in ESCAPES:
        env.step(
            query(statement.format(file=touched) if "{" in statement else statement)
        )
        for attempt in ("UPDATE orders SET total = 0", "SELECT nextval('tickets')"):
            refused = env.step(query(attempt))
            assert "ERROR 25006" in refused[0], statement

    found = facts(env)

    assert found.diff.empty
    assert found.ledger.changes == ()
    assert not touched.exists()


def test_the_looking_door_goes_on_after_whatever_was_tried(make: Make) -> None:
    env = make(step_timeout_s=0.3)
    play(env, query("COMMIT"), query("SELECT 1/0"), query("SELECT pg_sleep(30)"))

    assert env.step(query("SELECT 1 AS one"))[0] == "one\n1\n(1 row)"


def test_a_reader_can_write_through_no_door(make: Make) -> None:
    env = make("read")

    steps = play(env, sql(SHIP), sql("BEGIN READ WRITE"), sql(SHIP))

    assert "ERROR 25006" in steps[0][0]
    assert "ERROR 42501" in steps[2][0]
    assert facts(env).diff.empty


def test_a_definer_changes_what_it_was_given_and_nothing_else(make: Make) -> None:
    env = make("define")
    steps = play(
        env,
        sql("ALTER TABLE orders ADD COLUMN note text NOT NULL DEFAULT '-'"),
        sql("CREATE TABLE notes (order_id int REFERENCES orders, body text)"),
        sql("INSERT INTO notes VALUES (1, 'a')"),
        sql("UPDATE notes SET body = 'b'"),
        sql("ALTER TABLE lines ADD COLUMN note text"),
        sql("DROP TABLE lines"),
        sql("CREATE SCHEMA mine"),
        sql("ALTER TABLE orders OWNER TO CURRENT_USER"),
    )

    oks = [step[4]["ok"] for step in steps]
    assert oks == [True, True, True, True, False, False, False, True]
    rows = facts(env).ledger.changes
    assert [
        (row.kind, row.old, row.new) for row in rows if row.table == "public.notes"
    ] == [
        (RowKind.INSERT, {}, {"order_id": "1", "body": "a"}),
        (
            RowKind.UPDATE,
            {"order_id": "1", "body": "a"},
            {"order_id": "1", "body": "b"},
        ),
    ]


def test_a_door_that_a_task_has_not_says_so(make: Make) -> None:
    env = make()

    shown, *_, info = env.step(call("http_get", path="/orders"))

    assert shown == "There is no HTTP service in this task."
    assert (info["ok"], info["error_kind"]) == (False, "tool_error")


@pytest.mark.parametrize(
    ("world", "complaint"),
    [
        ({"rights": "own"}, "'own' is not one of"),
        ({"rights": "none"}, "there is no door"),
        ({"define": ["public.orders"]}, "needs the rights define"),
        ({"engines": "postgres"}, "engines"),
    ],
)
def test_a_world_that_cannot_be_is_named_with_its_file(
    tmp_path: Path, world: dict[str, Any], complaint: str
) -> None:
    env = gym.make("rlvr/SqlRest-v0", tasks=str(taskset(tmp_path, odd=world)))

    with pytest.raises(TaskError, match=complaint) as raised:
        env.reset()
    assert raised.value.file == tmp_path / "odd" / "task.yaml"


# -- what the harness sees -----------------------------------------------------------


def test_rows_have_the_turn_in_which_they_were_committed(make: Make) -> None:
    env = make()
    play(
        env,
        query("SELECT 1"),
        sql(SHIP),
        sql("BEGIN"),
        sql("INSERT INTO lines VALUES (1, 'a')"),
        sql("COMMIT"),
        sql("DELETE FROM lines"),
    )

    found = facts(env)

    assert [(row.kind, row.turn) for row in found.ledger.changes] == [
        (RowKind.UPDATE, 2),
        (RowKind.INSERT, 5),
        (RowKind.DELETE, 6),
    ]


def test_the_log_holds_calls_with_the_servers_own_words(make: Make) -> None:
    env = make()
    play(env, "no call", sql("DROP TABLE orders"), query("SELECT 1"), SUBMIT)

    found = facts(env)

    told = [(c.turn, c.call.name, c.category, c.state, c.message) for c in found.calls]
    denied = "must be owner of table orders"
    assert told == [
        (2, "sql", ToolCategory.MUTATE, "42501", denied),
        (3, "query", ToolCategory.OBSERVE, "", ""),
        (4, "submit", ToolCategory.TERMINAL, "", ""),
    ]
    epoch_s = 1705309200.0
    assert found.times_s == tuple(epoch_s + n for n in (1, 2, 3, 4))
    assert found.ended_s == epoch_s + 4


def test_what_is_not_committed_at_the_end_is_undone(make: Make) -> None:
    env = make()
    play(env, sql("BEGIN"), sql(SHIP), call("submit", answer="shipped"))

    found = facts(env)

    assert found.diff.empty
    assert found.ended == ("idle in transaction",)
    assert found.answer == "shipped"


def test_a_living_state_is_read_and_a_lock_stops_nobody(make: Make) -> None:
    env = make()
    living: Any = env.unwrapped
    assert living.diff().changes == ()
    play(env, sql(SHIP), sql("INSERT INTO lines VALUES (1, 'a')"))

    seen = living.diff()
    play(env, sql("BEGIN"), sql("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE"))

    assert [(c.path, c.kind, c.type) for c in seen.changes][1:] == [
        ("/rows/public.orders/3", "modified", "row")
    ]
    assert seen.facts["rows"]["/rows/public.orders/3"]["status"] == "shipped"
    assert [path.rpartition("/")[0] for path in seen.collateral] == [
        "/rows/public.lines"
    ]
    assert living.diff() == seen
    assert env.step(sql("COMMIT"))[4]["ok"]


def test_names_pids_and_places_of_this_run_are_not_shown(make: Make) -> None:
    env = make()
    name = env.unwrapped._world._clone.name  # type: ignore[attr-defined]

    shown = env.step(query("SELECT current_database(), current_user, session_user"))
    asked = env.step(query("SELECT pg_backend_pid()"))

    assert shown[0].splitlines()[1] == "agent,agent,agent"
    assert name not in asked[0]
    assert "ERROR 42501" in asked[0]


# -- the end -------------------------------------------------------------------------


def test_nothing_of_an_episode_is_found_in_the_next(make: Make) -> None:
    env = make()
    cluster = cluster_of(env)

    def fingerprint() -> tuple[Any, ...]:
        world = env.unwrapped._world  # type: ignore[attr-defined]
        diff = world._clone.look()
        last = world._clone.admin.execute("SELECT * FROM public.tickets").fetchall()
        return diff.empty, last, cluster.roles()[:0]

    untouched = fingerprint()
    for statement in (
        "UPDATE orders SET total = 0",
        "CREATE ROLE x",
        "CREATE SEQUENCE s",
        "SELECT nextval('tickets')",
        "ALTER ROLE CURRENT_USER SET search_path = evil",
        "CREATE TEMP TABLE orders AS SELECT 1",
        "SET search_path = pg_temp",
    ):
        env.step(sql(statement))
    env.reset(seed=3)

    assert fingerprint() == untouched


def test_cycles_leave_no_database_role_slot_or_session(make: Make) -> None:
    env = make()
    cluster = cluster_of(env)

    def census() -> tuple[int, ...]:
        env.close()
        sharing.close_pools()
        cluster.settle()
        slots, sessions = (
            cluster.admin.execute(f"TABLE {view}".encode()).rowcount
            for view in ("pg_replication_slots", "pg_stat_activity")
        )
        return (
            len(cluster.databases()),
            len(cluster.roles()),
            slots,
            sessions,
        )

    env.step(SUBMIT)
    before = census()
    for seed in range(50):
        env.reset(seed=seed)
        play(env, sql(SHIP), query("SELECT 1"), SUBMIT)

    assert census() == before


def test_a_server_that_dies_voids_that_episode_and_no_other(make: Make) -> None:
    env = make()
    play(env, sql(SHIP))
    server = cluster_of(env)._server
    assert server is not None
    pid = int((server.folder / "data/postmaster.pid").read_text().split()[0])
    backends = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    for victim in (pid, *map(int, backends)):
        os.kill(victim, signal.SIGKILL)
    _, reward, terminated, _, info = env.step(sql(SHIP))

    assert (reward, terminated, info["scorable"]) == (0.0, True, False)
    assert info["outcome"]["status"] == "infra_error"
    env.reset(seed=1)
    assert env.step(sql(SHIP))[0] == "UPDATE 1"


def test_a_burst_of_resets_is_served(tmp_path: Path) -> None:
    tasks = str(taskset(tmp_path, **WORLDS))
    envs = gym.make_vec("rlvr/SqlRest-v0", 16, tasks=tasks, task="write")
    for _ in range(2):
        shown, _ = envs.reset(seed=1)

        assert set(shown) == {"Do as you like.\n"}
    steps = envs.step([sql(SHIP)] * 16)
    assert [info_of(steps[4], slot)["ok"] for slot in range(16)] == [True] * 16
    envs.close()


# -- copies --------------------------------------------------------------------------


def test_a_branch_goes_on_where_the_episode_stood(make: Make) -> None:
    env, other = make(), make()
    play(env, sql(SHIP), sql("BEGIN"), sql("DELETE FROM lines"))
    branch = env.unwrapped.branch()  # type: ignore[attr-defined]
    play(env, sql("ROLLBACK"), sql("UPDATE orders SET total = 0"))

    other.reset(options={"start": branch})
    shown = other.step(sql("COMMIT"))[0]
    found = facts(other)

    branch.close()
    assert shown == "COMMIT"
    assert [row.new["status"] for row in found.diff.rows] == ["shipped"]
    assert [row.turn for row in found.ledger.changes] == [1]
    assert [call.turn for call in found.calls] == [1, 2, 3, 4]
    assert len(found.times_s) == 4


def test_a_sealed_episode_is_judged_as_it_was(make: Make) -> None:
    env, other = make(), make()
    play(env, sql(SHIP), call("submit", answer="yes"))
    before = facts(env)
    start = env.unwrapped.seal()  # type: ignore[attr-defined]

    other.reset(seed=9, options={"start": start})
    refused = other.step(sql("DELETE FROM orders"))
    other.step(SUBMIT)
    after = facts(other)

    start.close()
    assert "over" in refused[0]
    assert (after.calls, after.answer, after.times_s) == (
        before.calls,
        "yes",
        before.times_s,
    )
    assert after.diff == before.diff


def test_a_course_that_shows_something_else_is_refused(make: Make) -> None:
    env, other = make(), make()
    play(env, query("SELECT 1 AS one"))
    start = env.unwrapped.branch()  # type: ignore[attr-defined]
    course = start.layers[-1].layer.path / "course.json"
    course.write_text(course.read_text().replace("SELECT 1 AS one", "SELECT 2 AS one"))

    with pytest.raises(SnapshotError, match="Turn 1"):
        other.reset(options={"start": start})
    start.close()


def test_provenance_names_the_seed_and_not_the_run(make: Make) -> None:
    one, two = make(), make()

    assert one.unwrapped.provenance == two.unwrapped.provenance  # type: ignore[attr-defined]
    assert one.unwrapped.provenance["snapshot"].startswith("sha256:")  # type: ignore[attr-defined]


def test_gold_is_paid_through_the_whole_stack() -> None:
    env = gym.make("rlvr/SqlRest-v0", task=TASK)
    env.reset(seed=1)
    calls = gold(env.get_wrapper_attr("instance")).calls

    steps = play(env, *(item.to_json() for item in calls))

    assert steps[-1][1] == 1.0
    assert steps[-1][4]["outcome"]["status"] == "passed"
    met = [name for step in steps for name in step[4]["fulfilments"]]
    assert met == ["blind_write", "unseen_result"]
    assert not any(step[4]["violations"] for step in steps)
    env.close()


# -- the HTTP door -------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Any]:
    """The shop's service, and SQL beside it."""
    world = {"rights": "write", "service": "shop"}
    env = gym.make("rlvr/SqlRest-v0", tasks=str(taskset(tmp_path, shop=world)))
    env.reset(seed=1)
    yield env
    env.close()


def refund(cents: int) -> dict[str, Any]:
    body = f'{{"cents": {cents}, "reason": "damaged"}}'
    return call("http", method="POST", path="/orders/1/refunds", body=body)


def test_an_answer_is_status_headers_and_body(shop: Any) -> None:
    shown, _, _, _, info = shop.step(call("http_get", path="/orders/1"))
    absent, _, _, _, missed = shop.step(call("http_get", path="/__admin/state"))

    head, _, body = shown.partition("\n\n")
    assert head.splitlines()[0] == "HTTP 200 OK"
    assert "content-type: application/json" in head
    assert '"id":1' in body.replace(" ", "")
    assert info["ok"]
    assert absent.startswith("HTTP 404 Not Found\n")
    assert (missed["ok"], missed["error_kind"]) == (False, "tool_error")


def test_what_the_service_did_is_known_by_turn(shop: Any) -> None:
    play(shop, query("SELECT 1"), refund(100), sql("SELECT 1"), refund(200))

    found = facts(shop)

    assert [(e.turn, e.operation, e.status) for e in found.exchanges] == [
        (2, "create_refund", 201),
        (4, "create_refund", 201),
    ]
    inserted = [r for r in found.ledger.changes if r.table == "public.refunds"]
    assert [(row.turn, row.new["cents"]) for row in inserted] == [
        (2, "100"),
        (4, "200"),
    ]


def test_a_lock_that_the_agent_holds_is_a_busy_service(shop: Any) -> None:
    play(shop, sql("BEGIN"), sql("LOCK TABLE orders"))

    busy = shop.step(refund(100))
    play(shop, sql("ROLLBACK"))
    served = shop.step(refund(100))

    assert busy[0].startswith("HTTP 503 ")
    assert not busy[2]
    assert served[0].startswith("HTTP 201 ")


def test_an_episode_with_requests_is_played_again_to_the_letter(shop: Any) -> None:
    play(shop, call("http_get", path="/orders"), refund(100), SUBMIT)
    before = facts(shop)
    start = shop.unwrapped.seal()

    shop.reset(seed=4, options={"start": start})
    shop.step(SUBMIT)
    after = facts(shop)

    start.close()
    assert after.exchanges == before.exchanges
    assert after.deliveries == before.deliveries
    assert after.diff == before.diff


def test_a_record_names_no_cluster_and_no_password(make: Make, tmp_path: Path) -> None:
    dsn = cluster_of(make())._conninfo
    env = gym.make(
        "rlvr/SqlRest-v0", task=TASK, database=dsn, record=str(tmp_path / "runs")
    )
    env.reset(seed=1)
    env.step(SUBMIT)
    env.close()

    (file,) = (tmp_path / "runs").glob("*.jsonl")
    assert dsn not in file.read_text()
    assert '"database"' not in file.read_text().splitlines()[0]
