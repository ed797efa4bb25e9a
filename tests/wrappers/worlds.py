"""A world of scripted answers, for wrappers that read what steps return."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from typing_extensions import override

from rlvr_envs.records import Outcome, Status, ToolCategory, ToolSpec
from rlvr_envs.state import StateDiff

SCHEMA = {"type": "object", "properties": {}, "additionalProperties": True}
TOOLS = tuple(
    ToolSpec(name, name, SCHEMA, category)
    for name, category in {
        "look": ToolCategory.OBSERVE,
        "change": ToolCategory.MUTATE,
        "check": ToolCategory.VERIFY,
        "bash": ToolCategory.MUTATE,
        "submit": ToolCategory.TERMINAL,
    }.items()
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one step returns; the last answer is given again for ever."""

    text: str = ""
    ok: bool = True
    error_kind: str = ""
    status: Status | None = None
    truncated: bool = False
    diff: StateDiff = field(default_factory=StateDiff)


class Scripted(gym.Env[str, Any]):
    """Gives its answers in turn, whatever it is asked; ``submit`` ends it.

    Args:
        answers: One for each step.
        verdict: What a submit is judged as.
    """

    def __init__(
        self, *answers: Answer, verdict: Outcome | None = None, start: float = 0.0
    ) -> None:
        self.answers: Sequence[Answer] = answers or (Answer(),)
        self.verdict = verdict or Outcome(Status.PASSED, 1.0)
        self.tool_specs = TOOLS
        self.action_space = self.observation_space = gym.spaces.Text(9)
        self.start = start
        self.turn = 0

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.turn = 0
        return "go", {}

    @override
    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        answer = self._answer(self.turn)
        self.turn += 1
        submitted = "submit" in str(action)
        info: dict[str, Any] = {"ok": answer.ok, "error_kind": answer.error_kind}
        outcome = self.verdict if submitted else None
        if answer.status is not None:
            outcome = Outcome(answer.status, 0.0)
        if outcome is not None:
            info |= {"outcome": outcome.to_json(), "scorable": outcome.scorable}
        reward = outcome.reward if outcome else 0.0
        return answer.text, reward, outcome is not None, answer.truncated, info

    def _answer(self, turn: int) -> Answer:
        return self.answers[min(turn, len(self.answers) - 1)]


class Differing(Scripted):
    """Shows its state: the diff of the last answer given, none at the start."""

    def diff(self) -> StateDiff:
        return self._answer(self.turn - 1).diff if self.turn else StateDiff()


class Nameless(gym.Env[str, Any]):
    """Has no tools to speak of."""


def call(name: str, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


def bash(command: str) -> str:
    return call("bash", command=command)


def play(env: gym.Env[Any, Any], *actions: Any) -> list[dict[str, Any]]:
    """Reset, then return the info of each step."""
    env.reset()
    return [env.step(action)[4] for action in actions]
