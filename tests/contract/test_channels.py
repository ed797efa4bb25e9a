"""The reward channels of the standard stack, on real episodes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from rlvr_envs.envs.infos import info_of
from rlvr_envs.rewards.recorded import recorded_group
from rlvr_envs.tasks.scripts import gold
from tests.contract.conftest import MakeEnv
from tests.contract.worlds import SUBMIT, TASK, bash

BLIND = bash("rm -rf /app/old")
KEEPS = {"RepetitionShaping": {"penalty": 0.0}, "PathRules": {"penalty": 0.0}}


def play(env: gym.Env[Any, Any], *actions: Any) -> list[tuple[Any, ...]]:
    env.reset(seed=2)
    return [env.step(action) for action in actions]


def test_both_channels_are_filled_and_neither_is_paid(make: MakeEnv) -> None:
    polled = bash("cat /data/n.txt")
    actions = (BLIND, polled, polled, polled, SUBMIT)
    shown = play(make(task=TASK), *actions)
    plain = play(make(task=TASK, layers=KEEPS), *actions)

    infos = [step[4] for step in shown]
    assert [info["path_reward"] for info in infos] == [-0.25, 0.0, 0.0, 0.0, 0.0]
    assert infos[0]["violations"] == ["blind_destruction"]
    assert [info["repetition"] for info in infos] == [0.0, 0.0, -0.05, -0.05, 0.0]
    assert [step[:4] for step in shown] == [step[:4] for step in plain]
    assert infos[-1]["outcome"] == plain[-1][4]["outcome"]


def test_polling_whose_answer_changes_is_free(make: MakeEnv) -> None:
    asked = [bash("date +%s")] * 6
    free = play(make(task=TASK), *asked)
    charged = play(make(task=TASK), *[bash("hostname")] * 6)

    assert sum(step[4]["repetition"] for step in free) == 0.0
    assert sum(step[4]["repetition"] for step in charged) == -0.15


def test_a_flood_that_repeats_is_a_repeat_though_the_cut_names_another_file(
    make: MakeEnv,
) -> None:
    flood = bash("seq 100000")
    first, second = play(make(task=TASK), flood, flood)

    assert first[0] != second[0]
    assert second[4]["repetition"] == -0.05


def test_gold_earns_all_with_untouched_channels(make: MakeEnv) -> None:
    env = make(task="add-function")
    env.reset(seed=1)
    calls = gold(env.get_wrapper_attr("instance")).calls

    *_, (_, reward, _, _, info) = [env.step(call.to_json()) for call in calls]

    assert (reward, info["outcome"]["reward"]) == (1.0, 1.0)


def test_a_broken_episode_is_in_no_statistic(make_vec: Any) -> None:
    envs = make_vec(3, task=TASK)
    envs.reset(seed=1)
    envs.envs[1].unwrapped._world._sandbox.kill()
    episodes: list[list[dict[str, Any]]] = [[], [], []]
    for action in (bash("true"), SUBMIT):
        *_, infos = envs.step([action] * 3)
        for slot in range(3):
            episodes[slot] += [info] if (info := info_of(infos, slot)) else []

    group = recorded_group(episodes)

    assert group.group.scorable.tolist() == [True, False, True]
    assert (group.report.episodes, group.report.void) == (2, 1)
    assert group.report.dead == "all_fail"
