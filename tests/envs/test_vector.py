"""The group vector environment: slots run side by side and fail alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from typing_extensions import override

from rlvr_envs.envs.vector import GroupVectorEnv
from rlvr_envs.errors import SandboxError
from rlvr_envs.records import ToolCategory, ToolSpec
from rlvr_envs.spaces import ToolCallSpace, Unicode

SPEC = ToolSpec(
    "say", "Say.", {"type": "object", "properties": {}}, ToolCategory.OBSERVE
)


class Echo(gym.Env[str, Any]):
    """Shows what it was told; some words break it in one way or another."""

    observation_space = Unicode()
    action_space = ToolCallSpace((SPEC,))
    held = threading.Event()

    def __init__(self) -> None:
        self.turn = 0
        self.closed = False

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        asked = options or {}
        if asked.get("task") == "unknown":
            raise ValueError("There is no task 'unknown'.")
        if asked.get("task") == "broken":
            raise SandboxError("no sandbox")
        self.turn = 0
        return f"{asked.get('task')} {seed}", {"turn": 0}

    @override
    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        if action == "crash":
            raise RuntimeError("boom")
        if action == "hang":
            self.held.wait(30)
        done = action == "submit"
        return str(action), float(done), done, self.turn >= 3, {"turn": self.turn}

    @override
    def close(self) -> None:
        self.closed = True


@pytest.fixture
def group() -> Iterator[GroupVectorEnv]:
    Echo.held.clear()
    envs = GroupVectorEnv(Echo, num_envs=4, slot_timeout_s=0.5)
    yield envs
    Echo.held.set()
    envs.close()


def test_each_slot_gets_its_own_seed_and_task(group: GroupVectorEnv) -> None:
    shown, _ = group.reset(seed=7, options={"tasks": ["a", "b", "c", "d"]})

    assert shown == ("a 7", "b 8", "c 9", "d 10")
    assert shown in group.observation_space


def test_a_crashed_slot_is_void_and_its_siblings_go_on(group: GroupVectorEnv) -> None:
    group.reset(options={"task": "t"})

    shown, rewards, ended, _, infos = group.step(["x", "crash", "submit", "y"])

    assert shown == ("x", "", "submit", "y")
    assert rewards.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert ended.tolist() == [False, True, True, False]
    assert infos["outcome"]["status"][1] == "infra_error"
    assert infos["_scorable"].tolist() == [False, True, False, False]


def test_a_slot_that_hangs_is_given_up_and_comes_back(group: GroupVectorEnv) -> None:
    group.reset(options={"task": "t"})

    shown, _, ended, _, infos = group.step(["hang", "x", "x", "x"])

    assert ended.tolist() == [True, False, False, False]
    assert "no answer" in infos["outcome"]["reason"][0]
    assert shown[1:] == ("x", "x", "x")
    mask = np.array([True, False, False, False])
    assert group.reset(options={"task": "u", "reset_mask": mask})[0][0] == "u None"
    assert group.step(["a", "b", "c", "d"])[0] == ("a", "b", "c", "d")


def test_ended_slots_are_passed_over_until_they_are_reset(
    group: GroupVectorEnv,
) -> None:
    group.reset(options={"task": "t"})
    group.step(["submit", "x", "x", "x"])

    shown, rewards, ended, _, infos = group.step(["z", "z", "z", "z"])

    assert shown == ("submit", "z", "z", "z")
    assert rewards.tolist() == [0.0] * 4
    assert ended.tolist() == [True, False, False, False]
    assert infos["_turn"].tolist() == [False, True, True, True]


def test_a_mask_resets_some_slots_and_leaves_the_rest(group: GroupVectorEnv) -> None:
    group.reset(seed=0, options={"task": "t"})
    group.step(["submit", "x", "submit", "x"])

    mask = np.array([True, False, True, False])
    shown, infos = group.reset(options={"task": "u", "reset_mask": mask})

    assert shown == ("u None", "x", "u None", "x")
    assert infos["_turn"].tolist() == mask.tolist()
    _, _, _, truncated, _ = group.step(["x"] * 4)
    assert truncated.tolist() == [False] * 4
    assert group.step(["x"] * 4)[3].tolist() == [False, True, False, True]


def test_a_world_that_cannot_be_built_voids_its_slot_alone(
    group: GroupVectorEnv,
) -> None:
    shown, infos = group.reset(options={"tasks": ["t", "broken", "t", "t"]})

    assert infos["outcome"]["status"][1] == "infra_error"
    assert shown[0] == "t None"
    assert group.step(["x"] * 4)[0] == ("x", "", "x", "x")


def test_a_callers_mistake_raises(group: GroupVectorEnv) -> None:
    with pytest.raises(ValueError, match="no task 'unknown'"):
        group.reset(options={"tasks": ["t", "unknown", "t", "t"]})
    with pytest.raises(ValueError, match="3 tasks do not fit"):
        group.reset(options={"tasks": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="reset_mask is bool"):
        group.reset(options={"reset_mask": [1, 0, 1, 0]})
    with pytest.raises(ValueError, match="2 actions"):
        group.step(["a", "b"])
    with pytest.raises(ValueError, match="2 seeds"):
        group.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="at least 1"):
        GroupVectorEnv(Echo, num_envs=0)


def test_close_closes_every_slot_once() -> None:
    envs = GroupVectorEnv(Echo, num_envs=2)
    inner = envs.envs

    envs.close()
    envs.close()

    assert all(env.closed for env in inner)  # type: ignore[attr-defined]
