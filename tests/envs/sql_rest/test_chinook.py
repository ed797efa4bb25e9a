"""A database that nobody here wrote is served as a snapshot, and tasks stand on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest

from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.tasks.scripts import cheats, gold, null
from rlvr_envs.tasks.task import Instance, Script
from rlvr_envs.tasks.taskset import Taskset
from rlvr_envs.verifiers.kinds import validate_options
from tests.corpora import corpus
from tests.envs.sql_rest.chinook import SPECS, taskset

NAMES = [spec.name for spec in SPECS]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Taskset:
    source, missing = corpus("chinook")
    if missing:
        pytest.skip(missing)
    folder = taskset(tmp_path_factory.mktemp("chinook"), source)
    return Taskset(folder, validate=validate_options)


@pytest.fixture(scope="module")
def env(tasks: Taskset, cluster: Cluster) -> Iterator[gym.Env[Any, Any]]:
    env = gym.make("rlvr/SqlRest-v0", tasks=str(tasks.folder), pool_size=1)
    yield env
    env.close()


def _played(
    env: gym.Env[Any, Any], instance: Instance, script: Script
) -> dict[str, Any]:
    place = {"task": instance.task.name, "instance": instance.number}
    env.reset(seed=1, options=place)
    info: dict[str, Any] = {}
    for call in script.calls:
        _, _, _, _, info = env.step(call.to_json())
    outcome: dict[str, Any] = info["outcome"]
    return outcome


@pytest.mark.parametrize("name", NAMES)
def test_gold_earns_all_and_idleness_nothing(
    env: gym.Env[Any, Any], tasks: Taskset, name: str
) -> None:
    instance = tasks.instance(name, 0)

    golden = _played(env, instance, gold(instance))
    idle = _played(env, instance, null())

    assert golden["status"] == "passed", golden["reason"]
    assert golden["reward"] == 1.0
    assert idle["reward"] == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_no_cheat_earns(env: gym.Env[Any, Any], tasks: Taskset, name: str) -> None:
    instance = tasks.instance(name, 0)
    scripts = cheats(instance)

    earned = {s.name: _played(env, instance, s)["reward"] for s in scripts}

    assert len(earned) >= 3
    assert set(earned.values()) == {0.0}


@pytest.mark.parametrize("name", NAMES)
def test_instances_differ(tasks: Taskset, name: str) -> None:
    hidden = [str(tasks.instance(name, number).recipe.hidden) for number in range(4)]

    assert len(set(hidden)) > 1


def test_the_corpus_is_read_where_it_stands(tasks: Taskset) -> None:
    inside = [path for path in tasks.folder.rglob("*") if not path.is_symlink()]

    assert (tasks.folder / "chinook.sql").is_symlink()
    assert sum(path.stat().st_size for path in inside if path.is_file()) < 60_000
