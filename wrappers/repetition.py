"""RepetitionShaping: what repeating itself takes off an episode's advantages."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
from typing_extensions import override

from rlvr_envs.rewards.repetition import Memory, Repetition, RepetitionRule
from rlvr_envs.wrappers.turns import tool_categories, turn_of


class RepetitionShaping(
    gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs
):
    """Fills ``info["repetition"]``: the turn's penalty, 0.0 or below.

    The reward passes through untouched: add the penalty to the turn's advantage,
    after group normalisation.

    Args:
        env: The environment; must have ``tool_specs``. Belongs below
            `ClipObservation`, whose cut names another file each turn.
        threshold: Both similarities must be above it.
        penalty: Of one repeat, in advantage units.
        cap: Most that one episode pays.
        rule: Takes the place of the three, to set the tokenisation as well.

    Raises:
        CallerError: If the environment has no ``tool_specs``.
        ValueError: If a number is out of range.

    Source:
        Yao et al., "Learning Generalizable Behaviors for Terminal Agents" (RIVER),
        arXiv:2608.22631.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        threshold: float = 0.8,
        penalty: float = 0.05,
        cap: float = 0.15,
        rule: RepetitionRule | None = None,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self, threshold=threshold, penalty=penalty, cap=cap, rule=rule
        )
        super().__init__(env)
        self._fold = Repetition(rule or RepetitionRule(threshold, penalty, cap))
        self._categories = tool_categories(env)
        self._memory = Memory()

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode that remembers nothing."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._memory = Memory()
        return observation, {**info, "repetition": 0.0}

    @override
    def step(
        self, action: Any
    ) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, then compare the turn with all earlier ones."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        turn = turn_of(action, observation, info, self._categories)
        penalty, self._memory = self._fold.after(self._memory, turn)
        entry = {"repetition": float(penalty)}
        return observation, reward, terminated, truncated, {**info, **entry}
