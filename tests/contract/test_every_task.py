"""Every bundled task on the real environment: who earns 1.0, who does not, who a flag."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import gymnasium as gym
import pytest

from rlvr_envs.manifest import manifest
from rlvr_envs.tasks.scripts import cheats, gold, null, twins
from rlvr_envs.tasks.task import Instance, Script
from rlvr_envs.tasks.taskset import Taskset
from rlvr_envs.verifiers.kinds import validate_options
from tests.contract.conftest import Need

TASKSETS = {
    f"rlvr/{entry.id}": Taskset(entry.tasks, validate=validate_options)
    for entry in manifest().envs
}
NAMES = [(env_id, name) for env_id, tasks in TASKSETS.items() for name in tasks.names]
Play = Callable[[str, Instance, Script], dict[str, Any]]


@pytest.fixture(scope="module")
def play(need: Need) -> Iterator[Play]:
    """Play a script to its end; returns the last info, with the reward in it."""
    made: dict[str, gym.Env[Any, Any]] = {}
    closing = ExitStack()

    def run(env_id: str, instance: Instance, script: Script) -> dict[str, Any]:
        need(env_id)
        if env_id not in made:
            made[env_id] = gym.make(env_id)
            closing.callback(made[env_id].close)
        env = made[env_id]
        place = {"task": instance.task.name, "instance": instance.number}
        _, info = env.reset(seed=1, options=place)
        reward, ended = 0.0, False
        for call in script.calls:
            assert not ended
            _, gained, ended, _, info = env.step(call.to_json())
            reward = float(gained)
            assert not info["timed_out"], call
        assert ended
        return {**info, "reward": reward}

    with closing:
        yield run


def scripts_of(env_id: str, name: str, kind: str) -> tuple[Script, ...]:
    instance = TASKSETS[env_id].instance(name, 0)
    return {"cheats": cheats, "twins": twins}[kind](instance)


def named(kind: str) -> list[Any]:
    return [
        pytest.param(env_id, name, script.name, id=f"{name}-{script.name}")
        for env_id, name in NAMES
        for script in scripts_of(env_id, name, kind)
    ]


def chosen(instance: Instance, kind: str, name: str) -> Script:
    found = {"cheats": cheats, "twins": twins}[kind](instance)
    return next(script for script in found if script.name == name)


def assert_passes(info: dict[str, Any]) -> None:
    outcome = info["outcome"]
    assert (info["reward"], outcome["status"], outcome["tamper"]) == (
        1.0,
        "passed",
        [],
    ), outcome
    assert info["scorable"]


def assert_no_pass(info: dict[str, Any], script: Script) -> None:
    """Hold that a script neither passes nor earns more than its task says."""
    outcome = info["outcome"]
    assert outcome["status"] != "passed", outcome
    assert info["reward"] == outcome["reward"] <= script.at_most, outcome
    assert set(script.expect_tamper) <= set(outcome["tamper"]), outcome
    assert bool(outcome["tamper"]) == (outcome["status"] == "tampered")
    assert info["scorable"]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(("env_id", "name"), NAMES)
def test_gold_earns_everything(play: Play, env_id: str, name: str, number: int) -> None:
    instance = TASKSETS[env_id].instance(name, number)

    info = play(env_id, instance, gold(instance))

    assert_passes(info)
    assert info["outcome"]["collateral"] == []


@pytest.mark.parametrize(("env_id", "name"), NAMES)
def test_null_earns_nothing(play: Play, env_id: str, name: str) -> None:
    info = play(env_id, TASKSETS[env_id].instance(name, 0), null())

    assert_no_pass(info, null())
    assert info["outcome"]["status"] == "failed"


@pytest.mark.parametrize(("env_id", "name", "cheat"), named("cheats"))
def test_a_cheat_earns_no_more_than_its_cap(
    play: Play, env_id: str, name: str, cheat: str
) -> None:
    instance = TASKSETS[env_id].instance(name, 0)
    script = chosen(instance, "cheats", cheat)

    info = play(env_id, instance, script)

    assert_no_pass(info, script)


@pytest.mark.parametrize(("env_id", "name", "twin"), named("twins"))
def test_another_honest_solution_earns_everything(
    play: Play, env_id: str, name: str, twin: str
) -> None:
    instance = TASKSETS[env_id].instance(name, 0)

    assert_passes(play(env_id, instance, chosen(instance, "twins", twin)))
