"""The group vector environment: G episodes of one snapshot, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from typing_extensions import override

from rlvr_envs.envs.arguments import check_seconds
from rlvr_envs.envs.slots import MakeEnv, Slot, Transition
from rlvr_envs.errors import WrongArgument

Observations = tuple[str, ...]
Flags = NDArray[np.bool_]
RESET_MASK = "reset_mask"


class GroupVectorEnv(VectorEnv[Observations, Any, Any]):
    """Threads over environments whose work is done in other processes.

    Autoreset is disabled: a slot whose episode is over is passed over by `step`
    (its observation and flags stay, its reward is 0.0) until it is reset.

    A slot that breaks, or outlasts ``slot_timeout_s``, ends as ``infra_error``
    while its siblings go on; its next reset works.

    Args:
        make: Builds one environment with its wrappers.
        num_envs: Number of slots, at least 1.
        tasks: A task name for each slot; ``None`` for one task for all, which
            ``reset(options={"task": ...})`` or the environment's default names.
        slot_timeout_s: Most wall time of one call in one slot; ``None`` for none
            beside the limits of the environment itself.

    Raises:
        ValueError: If there is no slot, or the number of tasks is another.

    Source:
        Project specification, A1 and H2.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "autoreset_mode": AutoresetMode.DISABLED,
        "render_modes": ["ansi"],
    }

    def __init__(
        self,
        make: MakeEnv,
        *,
        num_envs: int,
        tasks: Sequence[str] | None = None,
        slot_timeout_s: float | None = None,
    ) -> None:
        if num_envs < 1:
            raise WrongArgument(
                f"num_envs must be at least 1, not {num_envs}.",
                remedy="give the number of slots",
            )
        if tasks is not None:
            _fit("tasks", tasks, num_envs)
        if slot_timeout_s is not None:
            check_seconds("slot_timeout_s", slot_timeout_s)
        self.num_envs = num_envs
        self._tasks = tuple(tasks) if tasks is not None else None
        self._timeout_s = slot_timeout_s
        self._slots = [Slot(make, index) for index in range(num_envs)]
        first = self._slots[0].env
        self.render_mode = first.render_mode
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = batch_space(first.observation_space, num_envs)
        self.action_space = batch_space(first.action_space, num_envs)

    @property
    def envs(self) -> tuple[gym.Env[str, Any], ...]:
        """The environments, slot by slot."""
        return tuple(slot.env for slot in self._slots)

    @override
    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, dict[str, Any]]:
        """Start episodes.

        Args:
            seed: One for each slot, or the first of consecutive ones; the
                snapshot does not depend on it.
            options: As for the environment, the same for all; ``tasks`` names one
                for each slot, ``reset_mask`` (bool of shape ``(num_envs,)``)
                leaves slots where it is false as they are.

        Returns:
            Observations of all slots, and the infos of those that were reset.

        Raises:
            ValueError: If an option does not fit; all slots were tried then.
        """
        shared = dict(options or {})
        chosen = self._chosen(shared.pop(RESET_MASK, None))
        tasks = shared.pop("tasks", self._tasks)
        if tasks is not None:
            _fit("tasks", tasks, self.num_envs)
        seeds = self._seeds(seed)
        begun = {}
        for index in chosen:
            own = {**shared, "task": tasks[index]} if tasks is not None else shared
            begun[index] = self._slots[index].begin_reset(seeds[index], own)
        infos: dict[str, Any] = {}
        failures: list[Exception] = []
        for index, future in begun.items():
            try:
                done = self._slots[index].finish(future, self._timeout_s)
            except Exception as error:  # noqa: BLE001 - raised below, after all
                failures.append(error)
                continue
            infos = self._add_info(infos, done.info, index)
        if failures:
            raise failures[0]
        return self._observations(), infos

    @override
    def step(
        self, actions: Sequence[Any]
    ) -> tuple[Observations, NDArray[np.float64], Flags, Flags, dict[str, Any]]:
        """Run one tool call in each slot whose episode lives.

        Args:
            actions: One for each slot; those of ended slots are ignored.

        Returns:
            Observations, rewards (float64 of shape ``(num_envs,)``), terminations
            and truncations (bool, same shape), infos of the slots that ran.

        Raises:
            ValueError: If the number of actions is another.
        """
        _fit("actions", actions, self.num_envs)
        begun = {
            index: slot.begin_step(actions[index])
            for index, slot in enumerate(self._slots)
            if not slot.last.ended
        }
        rewards = np.zeros(self.num_envs, dtype=np.float64)
        infos: dict[str, Any] = {}
        for index, future in begun.items():
            done = self._slots[index].finish(future, self._timeout_s)
            rewards[index] = done.reward
            infos = self._add_info(infos, done.info, index)
        last = self._last()
        terminations = np.array([item.terminated for item in last], dtype=np.bool_)
        truncations = np.array([item.truncated for item in last], dtype=np.bool_)
        return self._observations(), rewards, terminations, truncations, infos

    @override
    def render(self) -> tuple[Any, ...]:
        """Return what each slot renders."""
        return tuple(slot.env.render() for slot in self._slots)

    @override
    def close_extras(self, **_: Any) -> None:
        """Close every slot."""
        for slot in self._slots:
            slot.close()

    def _last(self) -> list[Transition]:
        return [slot.last for slot in self._slots]

    def _observations(self) -> Observations:
        return tuple(item.observation for item in self._last())

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)):
            return [int(seed) + index for index in range(self.num_envs)]
        _fit("seeds", seed, self.num_envs)
        return list(seed)

    def _chosen(self, mask: Any) -> list[int]:
        if mask is None:
            return list(range(self.num_envs))
        flags = np.asarray(mask)
        if flags.shape != (self.num_envs,) or flags.dtype != np.bool_:
            raise WrongArgument(
                f"reset_mask is bool of shape ({self.num_envs},), "
                f"not {flags.dtype} of shape {flags.shape}.",
                remedy="give a flag for each slot",
            )
        return [int(index) for index in np.flatnonzero(flags)]


def _fit(what: str, given: Sequence[Any], slots: int) -> None:
    if len(given) != slots:
        raise WrongArgument(
            f"{len(given)} {what} do not fit {slots} slots.",
            remedy="give one for each slot",
        )
