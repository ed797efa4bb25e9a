"""PotentialShaping: progress in the state of the world, as a shaping term."""

from __future__ import annotations

import math
from typing import Any, SupportsFloat

import gymnasium as gym
from typing_extensions import override

from rlvr_envs.errors import CallerError, WorldError
from rlvr_envs.records import Outcome, Status
from rlvr_envs.registration import load
from rlvr_envs.rewards.potential import Potential, gated, reading, step_shaping


class PotentialShaping(
    gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs
):
    """Fills ``info["potential"]`` and ``info["shaping"]`` of each step.

    The reward passes through untouched. Phi is read from the living world, so this
    layer belongs *below* the judge, which stops it. Collateral damage makes Phi 0.

    Args:
        env: The environment; must have ``diff()`` (`rlvr_envs.state.Diffable`).
        potential: In [0, 1], or where to find it as ``"module:name"``.
        gamma: The trainer's discount, in (0, 1].

    Attributes:
        potential_weight: Annealing factor, in [0, 1]; set by the trainer, taken over
            by the next reset and kept for the episode, so that the sum telescopes.

    Raises:
        CallerError: If the environment has no ``diff``.
        ValueError: If gamma is out of range.

    Source:
        Ng, Harada and Russell, "Policy invariance under reward transformations",
        ICML 1999.
    """

    def __init__(
        self, env: gym.Env[Any, Any], *, potential: Potential | str, gamma: float = 1.0
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, potential=potential, gamma=gamma)
        super().__init__(env)
        if not env.has_wrapper_attr("diff"):
            raise CallerError(
                f"{type(env.unwrapped).__name__} cannot show how its state differs.",
                remedy="give it `diff() -> StateDiff`, as rlvr_envs.state.Diffable",
            )
        found = load(potential) if isinstance(potential, str) else potential
        self._potential: Potential = gated(found)
        self._gamma = gamma
        step_shaping(0.0, 0.0, gamma=gamma, terminated=False)
        self.potential_weight = 1.0
        self._weight = 1.0
        self._before = 0.0

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode at the potential of its first state."""
        observation, info = self.env.reset(seed=seed, options=options)
        if not (math.isfinite(self.potential_weight) and self.potential_weight >= 0.0):
            raise ValueError("potential_weight is finite and not negative.")
        self._weight = self.potential_weight
        self._before = self._read()
        return observation, {**info, "potential": self._before, "shaping": 0.0}

    @override
    def step(
        self, action: Any
    ) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, then pay the difference in potential.

        A state that cannot be read makes the episode void; nothing is raised.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        try:
            after = 0.0 if terminated else self._read()
        except WorldError as error:
            return observation, 0.0, True, False, {**info, **_void(error)}
        term = self._weight * step_shaping(
            self._before, after, gamma=self._gamma, terminated=terminated
        )
        self._before = after
        scored = bool(info.get("scorable", True))
        entries = {"potential": after, "shaping": float(term) if scored else 0.0}
        return observation, reward, terminated, truncated, {**info, **entries}

    def _read(self) -> float:
        return reading(self._potential, self.env.get_wrapper_attr("diff")())


def _void(error: WorldError) -> dict[str, Any]:
    reason = f"{type(error).__name__}: {error}"
    return {
        "ok": False,
        "error_kind": "infra_error",
        "outcome": Outcome(Status.INFRA_ERROR, 0.0, reason=reason).to_json(),
        "scorable": False,
        "potential": 0.0,
        "shaping": 0.0,
    }
