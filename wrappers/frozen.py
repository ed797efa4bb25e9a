"""Verification of the frozen state: the one layer that pays."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import gymnasium as gym
from typing_extensions import override

from rlvr_envs.errors import WorldError
from rlvr_envs.records import Event, Outcome, Status
from rlvr_envs.state import FrozenState, Judgeable, Runner
from rlvr_envs.verifiers import judge

NEEDED = ("instance", "freeze", "runner")
"""Of `Judgeable`; sought on the class, since reading an instance needs an episode."""

Judging = Callable[[FrozenState, Any, Runner], Outcome]


class FrozenStateVerify(gym.Wrapper[Any, Any, Any, Any]):
    """Freezes an episode at its end, has it judged, and pays what it earned.

    ``info["outcome"]`` and ``info["scorable"]`` appear at the end of an episode. A
    fault of the world or of the judge is an outcome of its own, ``infra_error``;
    `step` never raises one. What was still running, and was killed, is told as events
    of the kind ``survivor``.

    Args:
        env: Its bare environment is `Judgeable`.
        judging: What judges; the project's own judge by default.

    Attributes:
        infra_errors: Episodes that ended void since this layer was made.

    Raises:
        TypeError: If the bare environment cannot be judged.
    """

    def __init__(self, env: gym.Env[Any, Any], *, judging: Judging = judge) -> None:
        super().__init__(env)
        kind = type(env.unwrapped)
        if not all(hasattr(kind, name) for name in NEEDED):
            raise TypeError(
                f"{kind.__name__} lacks one of {', '.join(NEEDED)}; "
                "FrozenStateVerify wraps environments that can be judged."
            )
        self._judging = judging
        self._spent: dict[str, float] = {}
        self.infra_errors = 0

    @property
    def timings(self) -> dict[str, float]:
        """Seconds of the last call, by part; ``freeze_s`` and ``judge_s`` at the end."""
        return {**self.env.get_wrapper_attr("timings"), **self._spent}

    @override
    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._spent = {}
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not (terminated or truncated):
            return observation, float(reward), terminated, truncated, info
        outcome = info.get("outcome")
        survivors: tuple[str, ...] = ()
        if not _is_void(outcome):
            verdict, survivors = self._verdict()
            outcome, reward = verdict.to_json(), verdict.reward
        scorable = not _is_void(outcome)
        self.infra_errors += not scorable
        info = {**info, "outcome": outcome, "scorable": scorable}
        if survivors:
            info["events"] = [*info.get("events", ()), *_events(survivors)]
        return observation, float(reward), terminated, truncated, info

    def _verdict(self) -> tuple[Outcome, tuple[str, ...]]:
        env = cast("Judgeable", self.env.unwrapped)
        survivors: tuple[str, ...] = ()
        began = time.monotonic()
        try:
            frozen = env.freeze()
            self._spent["freeze_s"] = time.monotonic() - began
            survivors = frozen.survivors
            outcome = self._judging(frozen, env.instance, env.runner())
            self._spent["judge_s"] = time.monotonic() - began - self._spent["freeze_s"]
        except WorldError as error:
            outcome = Outcome(Status.INFRA_ERROR, 0.0, reason=str(error))
        return outcome, survivors


def _events(survivors: Sequence[str]) -> Iterator[dict[str, Any]]:
    for command, count in sorted(Counter(survivors).items()):
        yield Event("survivor", count, command).to_json()


def _is_void(outcome: Any) -> bool:
    return isinstance(outcome, dict) and outcome.get("status") == Status.INFRA_ERROR
