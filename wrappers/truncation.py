"""ClipObservation: a deterministic byte budget for what the agent reads."""

from __future__ import annotations

from typing import Any, cast

import gymnasium as gym
from typing_extensions import override

from rlvr_envs.state import Spools
from rlvr_envs.tools.text import clip

_SMALLEST = 512


class ClipObservation(gym.Wrapper[str, Any, str, Any]):
    """Cuts observations to a number of bytes, head and tail kept.

    The cut never splits a character, says how much it left out, and names the
    file inside the sandbox that holds the whole output. The count is in
    ``info["truncated_bytes"]``: UTF-8 bytes of the text as it would have been shown, in
    which a byte that is no UTF-8 takes four, so it can be above ``bytes_total``, which
    counts what was printed.

    Args:
        env: The environment to wrap.
        limit_bytes: Most UTF-8 bytes of an observation, marker included.

    Raises:
        ValueError: If the limit leaves no room for a marker.

    Source:
        Project specification, A6.
    """

    def __init__(self, env: gym.Env[str, Any], *, limit_bytes: int = 8192) -> None:
        super().__init__(env)
        if limit_bytes < _SMALLEST:
            raise ValueError(
                f"limit_bytes must be at least {_SMALLEST}, not {limit_bytes!r}."
            )
        self._limit_bytes = limit_bytes

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; its instruction is clipped by the same rule."""
        observation, info = self.env.reset(seed=seed, options=options)
        text, cut = clip(observation, self._limit_bytes, log_path="")
        return text, {**info, "truncated_bytes": cut}

    @override
    def step(self, action: Any) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Run one tool call and clip what it showed."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if len(observation.encode()) > self._limit_bytes:
            left_out = info["truncated_bytes"]
            observation, cut = clip(
                observation,
                self._limit_bytes,
                log_path=cast("Spools", self.unwrapped).spool(),
                omitted_bytes=left_out,
            )
            info = {**info, "truncated_bytes": left_out + cut}
        return observation, reward, terminated, truncated, info
