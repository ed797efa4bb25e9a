"""One slot of the group vector environment: an environment and its thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from rlvr_envs.errors import WorldError
from rlvr_envs.records import Outcome, Status

MakeEnv = Callable[[], gym.Env[str, Any]]


@dataclass(frozen=True, slots=True)
class Transition:
    """What a slot gave back for one call."""

    observation: str
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether the slot's episode is over."""
        return self.terminated or self.truncated


class Slot:
    """An environment that runs on its own thread, so that it stops nobody else.

    Args:
        make: Builds the environment; called again after a slot was lost.
        index: Number of the slot, for messages.
    """

    def __init__(self, make: MakeEnv, index: int) -> None:
        self._make = make
        self._index = index
        self._lock = threading.Lock()
        self._fresh()

    def _fresh(self) -> None:
        self.env = self._make()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"slot-{self._index}")
        self.lost = False
        self.last = Transition("", terminated=True)

    def begin_reset(
        self, seed: int | None, options: dict[str, Any]
    ) -> Future[Transition]:
        """Start a reset; a slot that was lost gets a new environment first."""
        if self.lost:
            self._fresh()
        return self._pool.submit(self._reset, self.env, seed, options)

    def begin_step(self, action: Any) -> Future[Transition]:
        """Start a step."""
        return self._pool.submit(self._step, self.env, action)

    def finish(self, future: Future[Transition], timeout_s: float | None) -> Transition:
        """Wait for what was begun.

        A call that outlasts the timeout makes the slot lost: its episode is void
        and its environment is closed as soon as the call returns.
        """
        try:
            self.last = future.result(timeout_s)
        except TimeoutError:
            self.last = void(f"Slot {self._index} gave no answer in {timeout_s} s.")
            self._abandon(future)
        return self.last

    def close(self) -> None:
        """Close the environment and end the thread; idempotent."""
        if not self.lost:
            self._pool.submit(self.env.close).result()
            self._pool.shutdown()
            self.lost = True

    def _abandon(self, future: Future[Transition]) -> None:
        self.lost = True
        env, pool = self.env, self._pool
        future.add_done_callback(lambda _: env.close())
        pool.shutdown(wait=False)

    @staticmethod
    def _reset(
        env: gym.Env[str, Any], seed: int | None, options: dict[str, Any]
    ) -> Transition:
        try:
            observation, info = env.reset(seed=seed, options=options)
        except WorldError as error:
            return void(f"{type(error).__name__}: {error}")
        return Transition(observation, info=info)

    @staticmethod
    def _step(env: gym.Env[str, Any], action: Any) -> Transition:
        try:
            observation, reward, terminated, truncated, info = env.step(action)
        except Exception as error:  # noqa: BLE001 - a crash stays in its slot
            return void(f"{type(error).__name__}: {error}")
        return Transition(observation, float(reward), terminated, truncated, info)


def void(reason: str) -> Transition:
    """Return the end of an episode that does not count."""
    outcome = Outcome(Status.INFRA_ERROR, 0.0, reason=reason).to_json()
    info = {"outcome": outcome, "scorable": False}
    return Transition("", terminated=True, info=info)
