"""What every registered environment promises Gymnasium and its users."""

from __future__ import annotations

import copy
import json
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics

from rlvr_envs.errors import ResetNeeded
from rlvr_envs.manifest import manifest
from tests.contract.conftest import MakeEnv
from tests.contract.worlds import SUBMIT, TASK, bash, run, trace, trace_elsewhere

IDS = [f"rlvr/{entry.id}" for entry in manifest().envs]


@pytest.mark.parametrize("env_id", IDS)
def test_the_environment_checker_is_content(make: MakeEnv, env_id: str) -> None:
    check_env(make(env_id, stack="bare").unwrapped, skip_render_check=True)


@pytest.mark.parametrize("env_id", IDS)
def test_the_same_seed_shows_the_same_through_the_whole_stack(
    make: MakeEnv, env_id: str
) -> None:
    env = make(env_id)

    shown = []
    for _ in range(2):
        reset = env.reset(seed=3)
        env.action_space.seed(3)
        shown.append([reset, *(env.step(env.action_space.sample()) for _ in range(3))])

    assert shown[0] == shown[1]


@pytest.mark.parametrize("env_id", IDS)
def test_constructors_start_nothing(make: MakeEnv, env_id: str) -> None:
    env = make(env_id)

    assert env.unwrapped._world is None  # type: ignore[attr-defined]
    env.close()
    env.close()


def test_two_processes_show_the_same_bytes(make: MakeEnv) -> None:
    here = json.dumps(trace())

    one = trace_elsewhere({"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo"})
    two = trace_elsewhere({"PYTHONHASHSEED": "2", "TZ": "America/Lima", "LANG": "C"})

    assert one == two
    assert json.loads(one) == json.loads(here)


def test_another_seed_changes_what_is_random_and_not_the_task(make: MakeEnv) -> None:
    env = make(task=TASK)
    draw = "python3 -c 'import random; print(random.random())'; date +%s"
    shown = []
    for seed in (1, 2):
        instruction, _ = env.reset(seed=seed)
        shown.append((instruction, *run(env, draw)[0].split()))

    assert shown[0][0] == shown[1][0]
    assert shown[0][1] != shown[1][1]
    assert shown[0][2] == shown[1][2]


def test_the_wrapped_environment_refuses_a_step_without_an_episode(
    make: MakeEnv,
) -> None:
    env = make(task=TASK)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(bash("true"))
    env.reset()
    env.step(SUBMIT)

    with pytest.raises(ResetNeeded):
        env.step(bash("true"))


def test_a_task_that_is_solved_on_the_last_turn_is_paid(make: MakeEnv) -> None:
    env = make(task="add-function", turns=1)
    env.reset()
    solution = (
        "from pathlib import Path; import re\n"
        "p = Path('/app/sol.py'); print(p.read_text())"
    )

    _, reward, terminated, truncated, info = env.step(bash(f"python3 -c {solution!r}"))

    assert (terminated, truncated) == (False, True)
    assert info["outcome"]["status"] == "failed"
    assert reward == 0.0


def test_what_is_returned_belongs_to_the_caller(make: MakeEnv) -> None:
    env = make(task=TASK)
    _, info = env.reset(seed=1)
    first = run(env, "echo one; false")
    kept = copy.deepcopy(first[1])
    first[1].clear()
    info["events"].append("mine")

    env.reset(seed=1)
    assert run(env, "echo one; false")[1] == kept


def test_render_is_text(make: MakeEnv) -> None:
    env = make(task=TASK, render_mode="ansi")
    env.reset()
    run(env, "echo shown")

    assert "shown" in str(env.render())


STEPS = [f"echo step-{number}-$RANDOM" for number in range(3)]


def texts(envs: Any) -> list[tuple[str, ...]]:
    shown, _ = envs.reset(seed=11)
    seen = [tuple(map(str, shown))]
    for command in STEPS:
        shown, *_ = envs.step([bash(command)] * envs.num_envs)
        seen.append(tuple(map(str, shown)))
    return seen


def test_every_vector_class_shows_the_real_text(make_vec: Any, make: MakeEnv) -> None:
    single = make(task=TASK)
    single.reset(seed=11)
    real = [run(single, command)[0] for command in STEPS]
    plain = {"shared_memory": False}

    own = texts(make_vec(4, task=TASK))
    sync = texts(make_vec(4, task=TASK, vectorization_mode="sync"))
    fork = {**plain, "context": "fork"}
    spawn = {**plain, "context": "spawn"}
    forked = make_vec(4, task=TASK, vectorization_mode="async", vector_kwargs=fork)
    spawned = make_vec(4, task=TASK, vectorization_mode="async", vector_kwargs=spawn)

    assert [row[0] for row in own[1:]] == real
    assert own == sync == texts(forked) == texts(spawned)


def test_shared_memory_is_refused_with_the_remedy(make_vec: Any) -> None:
    with pytest.raises(ValueError, match="shared_memory=False"):
        make_vec(2, task=TASK, vectorization_mode="async")


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_stock_autoreset_modes_keep_lengths_and_last_observations(
    make: MakeEnv, mode: AutoresetMode
) -> None:
    def build() -> gym.Env[Any, Any]:
        return RecordEpisodeStatistics(make(task=TASK, turns=3))

    envs = gym.vector.SyncVectorEnv([build, build], autoreset_mode=mode)
    envs.reset(seed=1)
    lengths: list[int] = []
    last: list[tuple[str, str]] = []
    turn = 0
    while len(lengths) < 3:
        turn += 1
        shown, _, terminated, truncated, infos = envs.step([bash(f"echo t{turn}")] * 2)
        if not (terminated | truncated).any():
            continue
        ended = infos["final_info"] if mode is AutoresetMode.SAME_STEP else infos
        final = infos["final_obs"] if mode is AutoresetMode.SAME_STEP else shown
        lengths.append(int(ended["episode"]["l"][0]))
        last.append((str(final[0]), f"t{turn}"))
        if mode is AutoresetMode.DISABLED:
            envs.reset(seed=1)

    assert lengths == [3, 3, 3]
    assert all(shown == told for shown, told in last)
    envs.close()
