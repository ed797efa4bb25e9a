"""One seed and the same calls: the same bytes, in every episode and every process."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import rlvr_envs  # noqa: F401 (registers)
from rlvr_envs.envs.sql_rest.services import open_service
from rlvr_envs.errors import MissingRequirement
from tests.databases import MakeClone
from tests.envs.sql_rest.worlds import SUBMIT, call, query, sql

EPISODES = 20

GENERATOR = """
from rlvr_envs.tasks.task import Recipe

def generate(rng, number):
    return Recipe(database={script!r})
"""
SCRIPTS = {
    "postgres": """
        CREATE TABLE log (id int PRIMARY KEY, what text, made_at timestamptz DEFAULT now(),
          token uuid DEFAULT gen_random_uuid(), drawn float8 DEFAULT random());
        INSERT INTO log VALUES (0, 'seed');""",
    "sqlite": """
        CREATE TABLE log (id INTEGER PRIMARY KEY, what TEXT,
          made_at TEXT DEFAULT CURRENT_TIMESTAMP, token BLOB DEFAULT (randomblob(16)),
          drawn INTEGER DEFAULT (random()));
        INSERT INTO log (id, what) VALUES (0, 'seed');""",
}
ACTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "postgres": (
        sql("INSERT INTO log VALUES (1, 'mine') RETURNING *"),
        sql("SELECT clock_timestamp(), uuidv7(), 'now'::timestamptz, pg_sleep(0.01)"),
        query("SELECT random(), array_shuffle(ARRAY[1,2,3,4,5]), timeofday()"),
        sql("SELECT pg_terminate_backend(pg_backend_pid())"),
        sql("SELECT 1/0"),
        sql("INSERT INTO log VALUES (2, 'mine') RETURNING made_at, token, drawn"),
    ),
    "sqlite": (
        sql("INSERT INTO log (id, what) VALUES (1, 'mine') RETURNING *"),
        query("SELECT random(), datetime('now'), julianday('now')"),
        sql("SELECT 1/'x', missing"),
        sql("INSERT INTO log (id, what) VALUES (2, 'mine') RETURNING made_at, token"),
    ),
}
ENGINES = pytest.mark.parametrize("engine", sorted(SCRIPTS))


def taskset(folder: Path, engine: str) -> str:
    place = folder / engine
    place.mkdir(parents=True)
    schema = {"postgres": "public", "sqlite": "main"}[engine]
    statement = f"SELECT count(*) FROM {schema}.log"  # noqa: S608 - of our own
    check = {"statement": statement, "expect": {"scalar": 3}}
    task = {
        "title": "A log",
        "difficulty": "easy",
        "tags": ["sql"],
        "epoch": "2024-01-15T09:00:00Z",
        "version": 1,
        "world": {"engine": engine, "rights": "write"},
        "verification": {
            "mode": "database",
            "writes": [f"/rows/{schema}.log/*"],
            "checks": [{"kind": "sql_invariant", "name": "rows", "options": check}],
        },
    }
    (place / "generator.py").write_text(GENERATOR.format(script=SCRIPTS[engine]))
    (place / "instruction.md").write_text("Write into the log.\n")
    (place / "gold.yaml").write_text("- submit: {}\n")
    (place / "task.yaml").write_text(json.dumps(task))
    return str(folder)


def played(env: gym.Env[Any, Any], engine: str, *, seed: int = 3) -> str:
    env.reset(seed=seed)
    last = query("SELECT * FROM log ORDER BY id")
    actions = (call("schema"), *ACTIONS[engine], last, SUBMIT)
    steps = [env.step(action) for action in actions]
    assert steps[-1][1] == 1.0, steps[-1][4]
    rows = env.unwrapped.freeze().facts["database"].diff.rows  # type: ignore[attr-defined]
    told = [*(step[0] for step in steps), *(str(dict(row.new)) for row in rows)]
    return hashlib.sha256("\n\n".join(told).encode()).hexdigest()


def main(tasks: str, engine: str) -> None:
    env = gym.make("rlvr/SqlRest-v0", tasks=tasks)
    sys.stdout.write(played(env, engine))
    env.close()


def test_a_services_own_statements_live_by_the_same_clock(clone_of: MakeClone) -> None:
    clone = clone_of()
    clone.set_clock(1_800_014_400.0, seed=1)
    service = open_service("shop", clone, {}, lambda: 1_800_014_400.0)

    row = service._episode.connection.execute("SELECT now()::date::text").fetchone()

    assert row == ("2027-01-15",)
    service.close()


@ENGINES
def test_twenty_episodes_and_another_process_say_the_same(
    tmp_path: Path, engine: str
) -> None:
    tasks = taskset(tmp_path / "tasks", engine)
    with gym.make("rlvr/SqlRest-v0", tasks=tasks) as env:
        try:
            said = {played(env, engine) for _ in range(EPISODES)}
        except MissingRequirement as error:
            pytest.skip(str(error))
        assert played(env, engine, seed=4) not in said
    code = (
        "from tests.envs.sql_rest.test_same_bytes import main\n"
        f"main({tasks!r}, {engine!r})"
    )

    other = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert said == {other.stdout}
