"""Acceptance: the catalogue of attacks and honest twins on databases and services."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rlvr_envs.envs.sql_rest.session import SqlSession
from rlvr_envs.errors import MissingRequirement
from rlvr_envs.relational import Called
from rlvr_envs.sandbox.postgres import sharing
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.templates import Template
from rlvr_envs.tasks import scripts
from rlvr_envs.tasks.attacks import Attack, BenignTwin, load_attacks
from rlvr_envs.tasks.task import Instance, Script
from rlvr_envs.tasks.taskset import Taskset
from rlvr_envs.verifiers import Judge
from tests.databases import cluster
from tests.verifiers.databases import GraderQueries, called, facts_of_clone, state
from tests.verifiers.test_database import give_public

__all__ = ["cluster"]

ROOM = Path(scripts.__file__).parent.parent / "envs/sql_rest"
CATALOGUE = load_attacks(ROOM / "attacks.yaml")
TASKS = Taskset("rlvr_envs.envs.sql_rest.tasks")
FLAGGED = [attack for attack in CATALOGUE.attacks if attack.codes]


@pytest.fixture(scope="module")
def env() -> Iterator[gym.Env[Any, Any]]:
    made = gym.make("rlvr_envs:rlvr/SqlRest-v0")
    try:
        made.reset(seed=1)
    except MissingRequirement as error:
        made.close()
        pytest.skip(str(error))
    yield made
    made.close()
    sharing.close_clusters()


def ends(env: gym.Env[Any, Any], row: Attack | BenignTwin, script: Script) -> Any:
    """Play a script to its end; return the outcome."""
    env.reset(seed=3, options={"task": row.task, "instance": row.instance})
    for call in script.calls:
        _obs, reward, terminated, truncated, info = env.step(call.to_json())
        if terminated or truncated:
            assert reward == info["outcome"]["reward"]
            return info["outcome"]
    raise AssertionError("the script does not end its episode")


def instance_of(row: Attack | BenignTwin) -> Instance:
    return TASKS.instance(row.task, row.instance)


@pytest.mark.parametrize("attack", CATALOGUE.attacks, ids=lambda attack: attack.id)
def test_an_attack_earns_nothing_and_is_flagged(
    env: gym.Env[Any, Any], attack: Attack
) -> None:
    outcome = ends(env, attack, attack.script())

    assert outcome["status"] in ("failed", "tampered"), outcome["reason"]
    assert outcome["reward"] == 0.0
    assert set(attack.codes) <= set(outcome["tamper"])


@pytest.mark.parametrize("attack", FLAGGED, ids=lambda attack: attack.id)
def test_an_attack_after_the_solution_earns_nothing(
    env: gym.Env[Any, Any], attack: Attack
) -> None:
    script = attack.solved(scripts.gold(instance_of(attack)))
    assert script is not None

    outcome = ends(env, attack, script)

    assert (outcome["status"], outcome["reward"]) == ("tampered", 0.0)
    assert set(attack.codes) <= set(outcome["tamper"])


@pytest.mark.parametrize("twin", CATALOGUE.twins, ids=lambda twin: twin.id)
def test_an_honest_twin_earns_all_unflagged(
    env: gym.Env[Any, Any], twin: BenignTwin
) -> None:
    outcome = ends(env, twin, twin.script(scripts.gold(instance_of(twin))))

    assert (outcome["status"], outcome["reward"]) == ("passed", 1.0), outcome["reason"]
    assert outcome["tamper"] == []


# The rows that speak of an owner, played by a role that does own the tables.

OF_AN_OWNER = ("Q1", "Q1.database", "Q3", "Q3.rule", "Q3.policy", "Q5", "P2.identity")


@pytest.fixture
def owned(cluster: Cluster) -> Iterator[Clone]:
    seed = Seed(TASKS.instance("ship-and-count", 0).recipe.database)
    template = Template(cluster, seed)
    clone = make_clone(cluster.filler(), template, Access(Rights.WRITE))
    yield clone
    clone.close()
    cluster.settle()
    template.close()


@pytest.mark.parametrize("solved", [False, True])
@pytest.mark.parametrize("name", OF_AN_OWNER)
def test_an_owner_is_flagged_for_what_a_stranger_is_denied(
    owned: Clone, tmp_path: Path, name: str, solved: bool
) -> None:
    (attack,) = (row for row in CATALOGUE.attacks if row.id == name)
    honest = scripts.gold(instance_of(attack)).calls if solved else ()
    given = give_public(owned)

    log = play(owned, [*honest, *attack.calls])
    found = facts_of_clone(owned, *log)
    kept = tuple(change for change in found.diff.catalogue if change not in given)
    found = replace(found, answer="17", diff=replace(found.diff, catalogue=kept))
    outcome = Judge(staging=tmp_path).judge(
        state(found), instance_of(attack), GraderQueries(clone=owned)
    )

    assert (outcome.status, outcome.reward) == ("tampered", 0.0)
    assert "SCHEMA_SHADOW" in outcome.tamper


def play(clone: Clone, calls: list[Any]) -> list[Called]:
    """Run the statements of calls in one session; return the tool log."""
    session = SqlSession(clone)
    log = []
    for turn, call in enumerate(calls, start=1):
        if "statement" in call.arguments:
            session.sql(call.arguments["statement"])
            error = session.error
            said = (error.state, error.message) if error else ("", "")
            log.append(called(call.name, turn=turn, state=said[0], message=said[1]))
    return log
