"""A world on SQLite keeps the promises of one on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import rlvr_envs  # noqa: F401 (registers)
from rlvr_envs.envs.sql_rest.on_sqlite import SqliteQueries, SqliteSession
from rlvr_envs.errors import TaskError, VerifierError
from rlvr_envs.records import ErrorKind
from rlvr_envs.sandbox.sqlite import sharing
from rlvr_envs.state import QueryResult, RunRequest
from tests.envs.sql_rest.worlds import SUBMIT, call, facts, play, query, sql
from tests.sandbox.sqlite.test_rights import READ_ONLY_ATTACKS
from tests.sqlite_shop import SHOP, MakeClone, clone_of, shelf

__all__ = ["clone_of", "shelf"]

Make = Callable[..., gym.Env[Any, Any]]
WORLDS: dict[str, dict[str, Any]] = {
    "read": {"rights": "read"},
    "write": {"rights": "write"},
    "define": {"rights": "define", "define": ["main.notes"]},
}
SHIP = "UPDATE orders SET status = 'shipped' WHERE id = 3"
GENERATOR = """
from rlvr_envs.tasks.task import Recipe

def generate(rng, number):
    return Recipe(database={script!r})
"""
SHIPPED = {
    "kind": "sql_invariant",
    "name": "shipped",
    "options": {
        "statement": "SELECT status FROM main.orders WHERE id = %(order)s",
        "values": {"order": 3},
        "expect": {"scalar": "shipped"},
    },
}


def task(world: dict[str, Any]) -> str:
    writes = ["/rows/main.orders/3"]
    return json.dumps(
        {
            "title": "A shop",
            "difficulty": "easy",
            "tags": ["sql"],
            "epoch": "2024-01-15T09:00:00Z",
            "version": 1,
            "world": {"engine": "sqlite", **world},
            "verification": {"mode": "database", "writes": writes, "checks": [SHIPPED]},
        }
    )


def taskset(folder: Path, **worlds: dict[str, Any]) -> str:
    for name, world in worlds.items():
        place = folder / name
        place.mkdir(parents=True)
        (place / "generator.py").write_text(GENERATOR.format(script=SHOP.script))
        (place / "instruction.md").write_text("Mark order 3 as shipped.\n")
        (place / "gold.yaml").write_text("- submit: {}\n")
        (place / "task.yaml").write_text(task(world))
    return str(folder)


@pytest.fixture(scope="module", autouse=True)
def folders() -> Iterator[None]:
    """What episodes share ends with this module."""
    yield
    sharing.close_shelves()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make environments on three small worlds; all are closed at the end."""
    tasks = taskset(tmp_path / "tasks", **WORLDS)
    with ExitStack() as closing:

        def build(task: str = "write", **kwargs: Any) -> gym.Env[Any, Any]:
            env = gym.make("rlvr/SqlRest-v0", tasks=tasks, task=task, **kwargs)
            closing.callback(env.close)
            env.reset(seed=1)
            return env

        yield build


def ended(env: gym.Env[Any, Any], *actions: Any) -> tuple[float, Any]:
    _, reward, _, _, info = play(env, *actions, SUBMIT)[-1]
    return float(reward), info["outcome"]


# -- doors ---------------------------------------------------------------------------


def test_a_read_only_task_cannot_be_written_to(make: Make) -> None:
    for door in (sql, query):
        env = make("read")
        for attack in READ_ONLY_ATTACKS:
            text, *_ = env.step(door(attack))
            assert text.startswith("ERROR "), attack
            assert env.step(query("SELECT count(*) FROM orders"))[0].split()[1] == "20"
        assert facts(env).diff.empty


def test_the_looking_door_writes_nothing(make: Make) -> None:
    env = make()

    text, *_ = env.step(query(SHIP))

    assert text.startswith("ERROR 42501: permission denied for table orders")
    assert facts(env).diff.empty


def test_a_denied_call_is_an_event_and_in_the_log(make: Make) -> None:
    env = make()

    _, _, _, _, info = env.step(sql("ATTACH '/tmp/x.db' AS x"))

    (event,) = info["events"]
    assert event["kind"] == "denied"
    (called,) = facts(env).calls
    assert (called.ok, called.state) == (False, "42501")


def test_the_clock_is_the_turns(make: Make) -> None:
    env = make()

    first, second = (env.step(query("SELECT datetime()"))[0] for _ in range(2))

    assert "2024-01-15 09:00:01" in first
    assert "2024-01-15 09:00:02" in second


def test_two_episodes_of_one_seed_say_the_same(make: Make) -> None:
    actions = (
        call("schema"),
        sql("INSERT INTO lines (of) VALUES (1) RETURNING *"),
        sql("SELECT random(), hex(randomblob(8)), CURRENT_TIMESTAMP"),
    )

    seen = []
    for seed in (1, 1, 2):
        env = make()
        env.reset(seed=seed)
        seen.append([step[0] for step in play(env, *actions)])

    assert seen[0] == seen[1] != seen[2]


def test_a_large_answer_says_what_it_leaves_out(clone_of: MakeClone) -> None:
    session = SqliteSession(clone_of(), lasting=True, limit_rows=2)

    result = session.sql("SELECT id FROM orders")

    assert result.text.endswith(
        "[... 18 more rows not shown: narrow the query ...]\n(20 rows)"
    )
    assert result.omitted_bytes > 0


def test_a_lost_session_is_told_and_replaced(clone_of: MakeClone) -> None:
    session = SqliteSession(clone_of(), lasting=True, step_timeout_s=0.1)
    session.sql("BEGIN")
    deaf = "SELECT instr(printf('%.*c', 4000000, 'a'), printf('%.*c', 2000000, 'a') || 'b')"

    result = session.sql(deaf)

    assert result.timed_out
    assert result.error_kind is ErrorKind.TIMEOUT
    assert result.text == (
        "(an empty statement)\n[the statement was stopped after 0.1 s]\n"
        "[the session was lost and a new one opened; what it held is undone]"
    )
    assert session.sql("SELECT 1").ok


def test_an_open_transaction_is_shown(clone_of: MakeClone) -> None:
    clone = clone_of()
    session = SqliteSession(clone, lasting=True)

    assert session.sql("BEGIN").text == "BEGIN\n[a transaction is open]"
    assert SqliteSession(clone, lasting=False).sql("SELECT 1").text == "1\n1\n(1 row)"
    assert session.sql("INSERT INTO nowhere VALUES (1)").text.endswith(
        "ERROR 42P01: no such table: nowhere\n[a transaction is open]"
    )


# -- the end --------------------------------------------------------------------------


def test_the_honest_way_earns_all(make: Make) -> None:
    reward, outcome = ended(make(), sql(SHIP))

    assert reward == 1.0
    assert outcome["status"] == "passed"


@pytest.mark.parametrize(
    "actions",
    [
        (),
        (sql("UPDATE orders SET status = 'shipped'"),),
        (sql("UPDATE orders SET status = 'shipped ' WHERE id = 3"),),
        (sql("UPDATE orders SET status = x'73686970706564' WHERE id = 3"),),
        (sql("CREATE TEMP TABLE orders AS SELECT 3 AS id, 'shipped' AS status"),),
        (sql("BEGIN EXCLUSIVE"), sql(SHIP)),
        (sql(SHIP), sql("UPDATE accounts SET balance = '250abc' WHERE name = 'ada'")),
    ],
)
def test_every_other_way_earns_nothing(make: Make, actions: tuple[Any, ...]) -> None:
    reward, _ = ended(make(), *actions)

    assert reward == 0.0


def test_a_view_in_a_tables_place_is_denied(make: Make) -> None:
    for name in ("write", "define"):
        reward, outcome = ended(
            make(name),
            sql("ALTER TABLE orders RENAME TO o_"),
            sql("CREATE VIEW orders AS SELECT id, 'shipped' AS status FROM o_"),
        )
        assert reward == 0.0, outcome


def test_a_view_in_a_tables_place_is_flagged_where_it_can_be(tmp_path: Path) -> None:
    tasks = taskset(tmp_path / "tasks", owner={"rights": "define"})
    env = gym.make("rlvr/SqlRest-v0", tasks=tasks)
    env.reset(seed=1)

    reward, outcome = ended(
        env,
        sql("ALTER TABLE orders RENAME TO o_"),
        sql(
            "CREATE VIEW orders AS SELECT id, iif(id = 3, 'shipped', status) AS status,"
            " total FROM o_"
        ),
    )

    assert reward == 0.0
    assert outcome["tamper"] == ["SCHEMA_SHADOW"]
    env.close()


def test_a_living_difference_is_a_change(make: Make) -> None:
    env = make()
    env.step(sql(SHIP))

    found = env.unwrapped.diff()  # type: ignore[attr-defined]

    assert [change.path for change in found.changes] == ["/rows/main.orders/3"]
    assert found.collateral == ()


def test_a_service_needs_the_other_engine(tmp_path: Path) -> None:
    tasks = taskset(tmp_path / "tasks", bad={"rights": "none", "service": "shop"})

    with (
        gym.make("rlvr/SqlRest-v0", tasks=tasks) as env,
        pytest.raises(TaskError, match="postgres"),
    ):
        env.reset(seed=1)


# -- verifiers' questions -------------------------------------------------------------


def test_a_question_is_asked_of_the_final_database(clone_of: MakeClone) -> None:
    clone = clone_of()
    SqliteSession(clone, lasting=True).sql(SHIP)
    clone.freeze()
    queries = SqliteQueries(clone)

    found = queries.query(
        "SELECT id, total, NULL AS n, 'a%%' LIKE 'a%%' AS l FROM main.orders "
        "WHERE status = %(status)s",
        {"status": "shipped"},
    )

    assert found == QueryResult(({"id": 3, "total": 30, "n": None, "l": 1},))


def test_a_question_that_only_this_state_fails_is_its_problem(
    clone_of: MakeClone,
) -> None:
    clone = clone_of("define")
    SqliteSession(clone, lasting=True).sql("DROP TABLE lines")
    clone.freeze()
    queries = SqliteQueries(clone)

    found = queries.query("SELECT * FROM main.lines", {})

    assert found.problem == "42P01: no such table: main.lines"
    with pytest.raises(VerifierError, match="no such table"):
        queries.query("SELECT * FROM main.nowhere", {})
    with pytest.raises(VerifierError, match="cannot run"):
        queries.run(RunRequest(["ls"]))


def test_a_question_has_a_limit_of_rows(clone_of: MakeClone) -> None:
    clone = clone_of()
    clone.freeze()
    many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10001) SELECT i FROM n"

    assert SqliteQueries(clone).query(many, {}).problem == "more than 10000 rows"
