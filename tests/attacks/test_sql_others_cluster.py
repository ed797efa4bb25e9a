"""The catalogue of attacks on somebody else's cluster: a handful of each kind.

``rlvr attack --env rlvr/SqlRest-v0 --database DSN`` plays all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import psycopg
import pytest

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.sandbox.postgres import sharing
from rlvr_envs.tasks import scripts
from rlvr_envs.tasks.attacks import Attack, BenignTwin
from tests.attacks.test_sql_rest import CATALOGUE, TASKS, ends, instance_of
from tests.others_cluster import plain_cluster

FLAGGED = (
    "Q1.database",
    "Q1.grader",
    "Q9.language",
    "P1.passwords",
    "P2.slot",
    "Q11.void",
    "O1",
    "O3",
    "A17.routes",
    "Q15",
)
"""Attacks that are flagged: each door, each right, and what a cluster shares."""

UNFLAGGED = ("Q1.operator", "Q9.swallowed", "Q11.prepared", "A14.sql", "Q17.race")
HONEST = ("two-writers", "two-clerks", "schema-migration", "ticket-needs-approval")
TWINS = [twin for twin in CATALOGUE.twins if twin.task != "settle-balance"][::2]

_LEFT = """
SELECT (SELECT count(*) FROM pg_replication_slots),
  (SELECT count(*) FROM pg_stat_activity WHERE usename <> %s AND usename IS NOT NULL),
  (SELECT count(*) FROM pg_prepared_xacts)
"""


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    """A cluster that is not ours, and keeps prepared transactions."""
    try:
        with plain_cluster(max_prepared_transactions="4") as found:
            yield found
            sharing.close_clusters()
    except MissingRequirement as error:
        pytest.skip(str(error))


@pytest.fixture
def env(dsn: str) -> Iterator[gym.Env[Any, Any]]:
    made = gym.make("rlvr_envs:rlvr/SqlRest-v0", database=dsn)
    yield made
    made.close()


def named(name: str) -> Attack:
    (found,) = (attack for attack in CATALOGUE.attacks if attack.id == name)
    return found


@pytest.mark.parametrize("solved", [False, True], ids=["alone", "solved"])
@pytest.mark.parametrize("name", FLAGGED)
def test_an_attack_earns_nothing_and_is_flagged(
    env: gym.Env[Any, Any], name: str, solved: bool
) -> None:
    attack = named(name)
    honest = scripts.gold(instance_of(attack))
    script = attack.solved(honest) if solved else attack.script()
    assert script is not None

    outcome = ends(env, attack, script)

    assert (outcome["status"], outcome["reward"]) == ("tampered", 0.0)
    assert set(attack.codes) <= set(outcome["tamper"])


@pytest.mark.parametrize("name", UNFLAGGED)
def test_an_attack_that_breaks_nothing_earns_nothing(
    env: gym.Env[Any, Any], name: str
) -> None:
    outcome = ends(env, named(name), named(name).script())

    assert (outcome["status"], outcome["reward"]) == ("failed", 0.0)


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.id)
def test_an_honest_twin_earns_all_unflagged(
    env: gym.Env[Any, Any], twin: BenignTwin
) -> None:
    outcome = ends(env, twin, twin.script(scripts.gold(instance_of(twin))))

    assert (outcome["status"], outcome["reward"]) == ("passed", 1.0), outcome["reason"]
    assert outcome["tamper"] == []


@pytest.mark.parametrize("name", HONEST)
def test_gold_earns_everything(env: gym.Env[Any, Any], name: str) -> None:
    env.reset(seed=1, options={"task": name, "instance": 0})
    *_, last = [
        env.step(call.to_json()) for call in scripts.gold(TASKS.instance(name, 0)).calls
    ]

    assert last[1] == 1.0, last[4]["outcome"]


def test_an_attack_leaves_nothing_that_holds_the_cluster(
    env: gym.Env[Any, Any], dsn: str
) -> None:
    for name in ("P2.slot", "Q11.prepared", "Q11.void"):
        ends(env, named(name), named(name).script())
    env.close()
    sharing.close_clusters()

    with psycopg.connect(f"{dsn} dbname=postgres") as admin:
        left = admin.execute(_LEFT, ["postgres"]).fetchone()

    assert left == (0, 0, 0)
