"""A small environment that keeps our contract: add up to a target, then submit."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from typing_extensions import override

from rlvr_envs.errors import SandboxError
from rlvr_envs.records import Outcome, Status, ToolCategory, ToolSpec, Verification
from rlvr_envs.tasks.task import Instance, Recipe, Task
from rlvr_envs.wrappers.recording import RecordTrajectory

TOOLS = (
    ToolSpec(
        "add",
        "Add a number.",
        {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": False,
        },
        ToolCategory.MUTATE,
    ),
    ToolSpec(
        "submit",
        "End the episode.",
        {"type": "object", "properties": {}, "additionalProperties": False},
        ToolCategory.TERMINAL,
    ),
)


class Calls(gym.Space[str]):
    """Calls of the two tools, as JSON."""

    def __init__(self) -> None:
        super().__init__((), None)

    @override
    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    @override
    def sample(self, mask: Any = None, probability: Any = None) -> str:
        if self.np_random.random() < 0.2:
            return json.dumps({"name": "submit", "arguments": {}})
        n = int(self.np_random.integers(1, 4))
        return json.dumps({"name": "add", "arguments": {"n": n}})


class Words(gym.Space[str]):
    """Any text."""

    def __init__(self) -> None:
        super().__init__((), None)

    @override
    def contains(self, x: Any) -> bool:
        return isinstance(x, str)


class Tasks:
    """Two tasks, as a taskset shows them."""

    source = "toy"
    names = ("other", "sum")

    def get(self, name: str) -> Task:
        if name not in self.names:
            raise ValueError(f"There is no task {name!r} in toy. Known: other, sum.")
        return Task(
            name=name,
            folder=Path("/nowhere"),
            title=f"Reach a {name}",
            difficulty="easy",
            tags=("numbers", name),
            image="none",
            user=1000,
            workdir="/",
            epoch_s=0,
            version=1,
            budget={"turns": 20},
            env={},
            verification=Verification("artifacts", ("/total",), (), ()),
        )

    def instance(self, name: str, number: int) -> Instance:
        text = f"Reach {10 + number}."
        return Instance(self.get(name), number, text, Recipe(), f"sha256:{name}")


class Toy(gym.Env[str, Any]):
    """Reach 10 + instance.

    Args:
        drift: Put the process id into every observation, so that no replay agrees.
        world: The digest that provenance shows.
        broken: Break at this turn.
    """

    def __init__(
        self,
        *,
        drift: bool = False,
        world: str = "sha256:one",
        broken: int = -1,
        turns: int = 20,
    ) -> None:
        self.action_space = Calls()
        self.observation_space = Words()
        self.tool_specs = TOOLS
        self.taskset = Tasks()
        self.drift, self.world, self.broken = drift, world, broken
        self.budget = turns
        self.timings: dict[str, float] = {}
        self.total = self.turn = -1
        self.task, self.number, self.seed = "sum", 0, 0

    @property
    def instance(self) -> Instance:
        return self.taskset.instance(self.task, self.number)

    @property
    def provenance(self) -> Mapping[str, Any]:
        return {
            "task": self.task,
            "instance": self.number,
            "seed": self.seed,
            "snapshot": self.world,
            "instance_digest": f"sha256:{self.task}-{self.number}",
        }

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = options or {}
        self.task = options.get("task", "sum")
        self.taskset.get(self.task)
        self.number = options.get("instance", 0)
        self.seed = seed or 0
        self.total = self.turn = 0
        self.timings = {"reset": 0.25}
        return f"Reach {10 + self.number}.", self._info("", True)

    @override
    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        if self.turn == self.broken:
            raise SandboxError("the sandbox is gone")
        self.timings = {"step": 0.5}
        call = json.loads(action) if isinstance(action, str) else action
        call = call.get("function", call)
        arguments = call.get("arguments", {})
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        if call["name"] == "submit":
            return self._submit()
        self.total += arguments["n"]
        drift = f" ({os.getpid()})" if self.drift else ""
        late = self.turn >= self.budget
        info = self._info(call["name"], True)
        if late:
            info |= self._ended(Status.FAILED, 0.0)
        return f"total {self.total}{drift}", 0.0, False, late, info

    def _submit(self) -> tuple[str, float, bool, bool, dict[str, Any]]:
        won = self.total == 10 + self.number
        status = Status.PASSED if won else Status.FAILED
        info = self._info("submit", True) | self._ended(status, float(won))
        return "done", float(won), True, False, info

    def _ended(self, status: Status, reward: float) -> dict[str, Any]:
        outcome = Outcome(status, reward)
        return {"outcome": outcome.to_json(), "scorable": outcome.scorable}

    def _info(self, tool: str, ok: bool) -> dict[str, Any]:
        return {
            "tool": tool,
            "ok": ok,
            "exit_code": np.int64(-1),
            "turn": self.turn,
            "timed_out": False,
            "path_reward": 0.0,
            "events": [],
        }


def make_toy(*, record: str | Path | None = None, **kwargs: Any) -> gym.Env[Any, Any]:
    """Build the toy with a recorder around it, as our registration does."""
    return RecordTrajectory(Toy(**kwargs), folder=record)


def register() -> None:
    if "toy/Sum-v0" not in gym.registry:
        gym.register("toy/Sum-v0", entry_point=make_toy)
        gym.register("toy/Drift-v0", entry_point=make_toy, kwargs={"drift": True})
        gym.register("toy/Short-v0", entry_point=make_toy, kwargs={"turns": 1})


register()
