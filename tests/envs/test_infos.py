"""A slot's own info, out of what a vector environment returns."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv
from typing_extensions import override

from rlvr_envs.envs.infos import info_of

SAID: dict[str, Any] = {
    "ok": True,
    "turn": 3,
    "path_reward": -0.25,
    "tool": "bash",
    "violations": ["one", "two"],
    "outcome": {"status": "failed", "invariants": [{"name": "a"}], "reward": 0.5},
}


class Says(gym.Env[Any, Any]):
    """Returns one info; the second slot a shorter one."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.observation_space = self.action_space = gym.spaces.Discrete(2)
        self._info = info

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        return 0, dict(self._info)


def test_each_slot_gets_back_what_it_said() -> None:
    envs = SyncVectorEnv([lambda: Says(SAID), lambda: Says({"turn": 4})])
    _, infos = envs.reset()

    assert info_of(infos, 0) == SAID
    assert info_of(infos, 1) == {"turn": 4}
    assert type(info_of(infos, 0)["turn"]) is int
    assert not isinstance(info_of(infos, 0)["ok"], np.bool_)
    envs.close()
