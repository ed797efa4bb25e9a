"""Small deductions for an untidy path, on verified wins only.

A loss is never made worse: giving up early must not pay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rlvr_envs.records import Outcome, Status, ToolCategory
from rlvr_envs.rewards.episode import Turn

PRICES = (0.005, 0.04)
"""Lowest and highest price of one lapse, in reward units."""

CEILING = 0.099
"""Most that all lapses together cost: below 0.10."""


@dataclass(frozen=True, slots=True)
class Lapse:
    """One row of the price list.

    Attributes:
        count: Returns how often it happened, at least 0.
        price: Of each occurrence, in [0.005, 0.04].
        cap: Most that this row takes, at most `CEILING`.

    Raises:
        ValueError: If price or cap is out of range.

    Source:
        Project specification, E3.
    """

    name: str
    count: Callable[[Sequence[Turn]], int]
    price: float
    cap: float = CEILING

    def __post_init__(self) -> None:
        low, high = PRICES
        if not low <= self.price <= high:
            raise ValueError(f"A lapse costs {low} to {high}, not {self.price!r}.")
        if not 0.0 < self.cap <= CEILING:
            raise ValueError(f"A lapse is capped at {CEILING}, not {self.cap!r}.")

    def cost(self, turns: Sequence[Turn]) -> float:
        """Return what this row takes, in [0, cap]."""
        return min(self.cap, self.price * self.count(turns))


def identical_reads(turns: Sequence[Turn]) -> int:
    """Count reads that repeat an earlier one, with nothing changed in between.

    A read whose answer differs from the earlier one is polling, and is not counted.
    """
    seen: set[tuple[str, str]] = set()
    repeats = 0
    for turn in (turn for turn in turns if not turn.void):
        if turn.category is not ToolCategory.OBSERVE:
            seen = set()
            continue
        read = (turn.act.key, turn.observation)
        repeats += read in seen
        seen.add(read)
    return repeats


def malformed_retries(turns: Sequence[Turn]) -> int:
    """Count refused calls that directly follow a refused call.

    The first refusal is free: its message is how an agent learns the schema.
    """
    refused = [not turn.ran for turn in turns if not turn.void]
    return sum(now and before for before, now in pairwise(refused))


@dataclass(frozen=True, slots=True)
class Bloat:
    """Counts turns that reason for longer than ``limit_tokens``."""

    limit_tokens: int = 2048

    def __call__(self, turns: Sequence[Turn]) -> int:
        """Return the number of such turns."""
        return sum(turn.reasoning_tokens > self.limit_tokens for turn in turns)


@dataclass(frozen=True, slots=True)
class TurnsAbove:
    """Counts turns beyond ``limit``."""

    limit: int = 6

    def __call__(self, turns: Sequence[Turn]) -> int:
        """Return the number of such turns, at least 0."""
        return max(0, len(turns) - self.limit)


STANDARD = (
    Lapse("identical_read", identical_reads, 0.01),
    Lapse("malformed_retry", malformed_retries, 0.01),
    Lapse("bloated_reasoning", Bloat(), 0.005),
)
"""What every task may charge for."""

REFUND = (Lapse("turns_above_limit", TurnsAbove(6), 0.008, cap=0.08),)
"""The efficiency term of the specification's refund task (D6)."""


@dataclass(frozen=True, slots=True)
class Bill:
    """What each row took.

    Attributes:
        items: Row name to cost, rows that cost nothing left out.
        total: In [0, `CEILING`].
    """

    items: tuple[tuple[str, float], ...]

    @property
    def total(self) -> float:
        """The sum, cut at the ceiling."""
        return min(CEILING, math.fsum(cost for _, cost in self.items))


def bill(turns: Sequence[Turn], lapses: Sequence[Lapse] = STANDARD) -> Bill:
    """Price a path; whether it is charged depends on the verdict: see `charged`."""
    priced = ((row.name, row.cost(turns)) for row in lapses)
    return Bill(tuple((name, cost) for name, cost in priced if cost > 0.0))


def charged(outcome: Outcome, owed: Bill) -> Outcome:
    """Return the verdict with the bill taken off a win.

    A loss, a tampered and a void episode come back as they are. The judge may use
    this where a task asks for it; nothing after the judge does.

    Source:
        Project specification, E3 and D6.
    """
    if outcome.status is not Status.PASSED:
        return outcome
    taken = min(owed.total, outcome.reward)
    return replace(outcome, reward=outcome.reward - taken, efficiency_penalty=taken)
