"""FakeTime: frozen wall time for everything that runs inside."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import gymnasium as gym
from typing_extensions import override

from rlvr_envs.confinement import ClockRule, Confinement


class FakeTime(gym.Wrapper[Any, Any, Any, Any]):
    """Narrows the confinement of each episode by a clock rule.

    Wall time starts at the epoch, moves by a fixed step each turn and by a fixed
    increment each time a process reads it. The monotonic clock stays real.

    Args:
        env: The environment to wrap.
        epoch: ISO 8601 time with a zone, whole seconds; ``None`` for the task's.
        step_s: How far a turn moves the clock, in seconds.
        increment_s: How far one reading moves it, in seconds.

    Raises:
        ValueError: If the epoch has no time zone or a step is negative.

    Source:
        Own rule: ARCHITECTURE.md#frozen-time.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        epoch: str | None = None,
        step_s: float = 1.0,
        increment_s: float = 0.001,
    ) -> None:
        super().__init__(env)
        self._rule = ClockRule(_seconds(epoch), step_s, increment_s)

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode under the clock rule."""
        held = (options or {}).get("confinement", Confinement())
        narrowed = {**(options or {}), "confinement": held.narrow(clock=self._rule)}
        return self.env.reset(seed=seed, options=narrowed)


def _seconds(epoch: str | None) -> int | None:
    if epoch is None:
        return None
    moment = datetime.fromisoformat(epoch)
    if moment.tzinfo is None:
        raise ValueError(
            f"The epoch {epoch!r} has no time zone: write {epoch!r} + 'Z' for UTC."
        )
    return int(moment.astimezone(UTC).timestamp())
