"""Real sandboxes in which a policy plays groups of episodes of one lesson."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlvr_envs.envs.infos import info_of
from rlvr_envs.envs.vector import GroupVectorEnv
from rlvr_envs.rewards.recorded import RecordedGroup, recorded_group
from rlvr_envs.rollouts.learning.lessons import TASKS, Lesson
from rlvr_envs.rollouts.learning.policy import START, Choice, Policy, State, after
from rlvr_envs.rollouts.learning.signals import Signal

Floats = NDArray[np.float64]

ENV = "rlvr/Terminal-v0"
SHAPED = "shaped"


@dataclass(slots=True)
class Try:
    """One episode as it is played.

    Attributes:
        infos: Of each step.
        terms: Of each turn: the path's or the potential's, unbounded.
    """

    state: State = START
    choices: list[Choice] = field(default_factory=list)
    infos: list[dict[str, Any]] = field(default_factory=list)
    terms: list[float] = field(default_factory=list)
    over: bool = False


@dataclass(frozen=True, slots=True)
class Played:
    """A group of episodes."""

    tries: tuple[Try, ...]
    group: RecordedGroup

    @property
    def terms(self) -> tuple[Floats, ...]:
        """Shape (turns,) for each episode."""
        return tuple(np.array(item.terms, dtype=np.float64) for item in self.tries)

    @property
    def scored(self) -> tuple[Try, ...]:
        """Those whose world and judge did not break."""
        flags = self.group.group.scorable
        return tuple(item for item, flag in zip(self.tries, flags, strict=True) if flag)


class Classroom:
    """A vector environment for one lesson and one signal; close it.

    Args:
        lesson: What is played.
        signal: Which channels its stack fills, at which weights.
        size: Episodes in a group.
        kwargs: For the environment, such as ``places``.
    """

    def __init__(
        self,
        lesson: Lesson,
        signal: Signal,
        *,
        size: int,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self._lesson = lesson
        self._signal = signal
        made = gym.make_vec(
            ENV,
            size,
            tasks=TASKS,
            task=lesson.task,
            turns=lesson.turns,
            **_stack(lesson, signal),
            **(kwargs or {}),
        )
        self._envs = cast("GroupVectorEnv", made)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything; idempotent."""
        self._envs.close()

    def play(
        self, policy: Policy, rng: np.random.Generator, *, weight: float = 1.0
    ) -> Played:
        """Play one group from one snapshot.

        Args:
            policy: Chooses each turn of each episode.
            rng: Draws the choices, slot by slot.
            weight: Annealing factor of the potential, in [0, 1].
        """
        if self._signal.potential:
            for env in self._slots:
                env.set_wrapper_attr("potential_weight", weight)
        self._envs.reset(seed=0)
        tries = [Try() for _ in self._slots]
        calls = [call.to_json() for call in self._lesson.calls]
        while not all(item.over for item in tries):
            chosen = [0 if t.over else policy.choose(t.state, rng) for t in tries]
            *_, ended, cut, infos = self._envs.step([calls[i] for i in chosen])
            for slot, item in enumerate(tries):
                if not item.over:
                    self._note(item, chosen[slot], info_of(infos, slot), slot)
                    item.over = bool(ended[slot] or cut[slot])
        return Played(tuple(tries), recorded_group([t.infos for t in tries]))

    @property
    def _slots(self) -> Sequence[gym.Env[Any, Any]]:
        return self._envs.envs

    def _note(self, item: Try, index: int, info: dict[str, Any], slot: int) -> None:
        item.choices.append(Choice(item.state, index))
        item.state = after(item.state, index, ok=bool(info.get("ok", False)))
        item.infos.append(info)
        item.terms.append(self._term(info, slot))

    def _term(self, info: dict[str, Any], slot: int) -> float:
        if self._signal.potential:
            return float(info.get("shaping", 0.0))
        if "violations" not in info:
            return 0.0
        return float(self._slots[slot].get_wrapper_attr("term")(info))


def _stack(lesson: Lesson, signal: Signal) -> dict[str, Any]:
    rules = {"penalty": signal.penalty, "credit": signal.credit}
    layers: dict[str, Any] = {"PathRules": rules}
    if not signal.potential:
        return {"layers": layers}
    layers["PotentialShaping"] = {"potential": lesson.potential}
    return {"layers": layers, "stack": SHAPED}
