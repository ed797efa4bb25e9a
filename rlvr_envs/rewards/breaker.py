"""A breaker that stops training when the trainer reports a collapse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Limit:
    """What a reported number must stay within; the ends are allowed."""

    low: float = -math.inf
    high: float = math.inf

    def holds(self, value: float) -> bool:
        """Whether the number is finite and within."""
        return math.isfinite(value) and self.low <= value <= self.high


LIMITS: Mapping[str, Limit] = MappingProxyType(
    {"entropy": Limit(low=0.05, high=6.0), "gradient_norm": Limit(high=100.0)}
)
"""Nats per token, and the global norm before clipping; set your own run's."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """Trips when a number stays out of its limits, and stays tripped.

    Attributes:
        limits: By the name under which the trainer reports it.
        patience: Consecutive bad reports that trip it, at least 1. A number that is
            not finite trips it at once.
        strikes: Bad reports in a row so far.
        reason: Why it tripped; empty while it has not.

    Raises:
        ValueError: If patience is below 1.

    Source:
        Own rule: ARCHITECTURE.md#reward-channels.
    """

    limits: Mapping[str, Limit] = field(default_factory=lambda: LIMITS)
    patience: int = 3
    strikes: int = 0
    reason: str = ""

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise ValueError(f"patience is at least 1, not {self.patience!r}.")

    @property
    def tripped(self) -> bool:
        """Whether training must stop."""
        return bool(self.reason)

    def after(self, report: Mapping[str, float]) -> Breaker:
        """Return the breaker as it stands after one update's report.

        Numbers without a limit are ignored, and so are limits without a number.
        """
        if self.tripped:
            return self
        shared = {name: report[name] for name in self.limits if name in report}
        bad = [name for name in shared if not self.limits[name].holds(shared[name])]
        if not bad:
            return replace(self, strikes=0)
        strikes = self.strikes + 1
        blown = any(not math.isfinite(shared[name]) for name in bad)
        reason = ", ".join(f"{name} is {shared[name]:g}" for name in bad)
        tripped = blown or strikes >= self.patience
        return replace(self, strikes=strikes, reason=reason if tripped else "")
