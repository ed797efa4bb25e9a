"""What came of it: means and deviations over seeds, and what reproduced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from typing_extensions import override

from rlvr_envs.rollouts.learning.training import Update

LAST = 10
"""Updates at the end over which a policy is judged."""

WINDOW = 5
"""Updates over which success is averaged before it is held against `GOAL`."""

GOAL = 0.9

Runs = Mapping[str, Sequence[Sequence[Update]]]
"""Signal name to its runs, one for each seed."""


def runs_of(updates: Iterable[Update]) -> dict[str, list[list[Update]]]:
    """Sort updates, as they were yielded, into runs."""
    found: dict[str, list[list[Update]]] = {}
    for (signal, _), run in groupby(updates, key=lambda item: (item.signal, item.seed)):
        found.setdefault(signal, []).append(list(run))
    return found


def reached(run: Sequence[Update]) -> int:
    """Return after how many updates success was at `GOAL`, a mean over `WINDOW`.

    One more than the updates made, if it never was.
    """
    rates = [item.success for item in run]
    for end in range(WINDOW, len(rates) + 1):
        if np.mean(rates[end - WINDOW : end]) >= GOAL:
            return end
    return len(rates) + 1


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean over seeds and its (population) deviation."""

    mean: float
    deviation: float

    @classmethod
    def over(cls, values: Sequence[float]) -> Figure:
        """Take both over seeds."""
        return cls(float(np.mean(values)), float(np.std(values)))

    @override
    def __str__(self) -> str:
        return f"{self.mean:.3g} ± {self.deviation:.2g}"


_READINGS: Mapping[str, Callable[[Sequence[Update]], float]] = {
    "first_success": lambda run: _mean(run[:LAST], "success"),
    "success": lambda run: _mean(run[-LAST:], "success"),
    "first_violations": lambda run: _mean(run[:LAST], "violations"),
    "violations": lambda run: _mean(run[-LAST:], "violations"),
    "fulfilments": lambda run: _mean(run[-LAST:], "fulfilments"),
    "needed": lambda run: _mean(run[-LAST:], "needed"),
    "handed_in": lambda run: _mean(run[-LAST:], "handed_in"),
    "updates_to_goal": lambda run: float(reached(run)),
    "dead_updates": lambda run: float(sum(item.is_dead for item in run)),
    "void": lambda run: float(sum(item.void for item in run)),
}


def _mean(updates: Sequence[Update], name: str) -> float:
    return float(np.mean([getattr(item, name) for item in updates]))


def figures(runs: Sequence[Sequence[Update]]) -> dict[str, Figure]:
    """Describe the runs of one signal."""
    return {
        name: Figure.over([reading(run) for run in runs])
        for name, reading in _READINGS.items()
    }


@dataclass(frozen=True, slots=True)
class Finding:
    """A published result, and whether its shape came out here."""

    claim: str
    holds: bool
    detail: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"claim": self.claim, "holds": self.holds, "detail": self.detail}


Figures = Mapping[str, Mapping[str, Figure]]


def path_teaches(found: Figures) -> Finding:
    """Hold that the path channel cuts violations and costs no success.

    Source:
        Li and Shi (RLVP), arXiv:2607.07435.
    """
    plain, both = found["outcome"], found["two channels"]
    before, after = plain["violations"].mean, both["violations"].mean
    cut = before >= 5.0 * after and before >= 0.5
    equal = both["success"].mean >= plain["success"].mean - 0.05
    detail = (
        f"violations {plain['violations']} by outcome alone, {both['violations']} by "
        f"both; success {plain['success']} and {both['success']}; obligations met "
        f"{plain['fulfilments']} and {both['fulfilments']}; handed in "
        f"{plain['handed_in']} and {both['handed_in']}"
    )
    claim = "the path channel cuts violations at least fivefold at equal success"
    return Finding(claim, cut and equal, detail)


def penalty_collapses(found: Figures) -> Finding:
    """Hold that a penalty alone unlearns the task along with its violations.

    Source:
        Li and Shi (RLVP), arXiv:2607.07435.
    """
    alone, plain = found["penalty alone"], found["outcome"]
    clean = alone["violations"].mean <= 0.2 * plain["violations"].mean
    idle = alone["success"].mean <= 0.1 and alone["handed_in"].mean <= 0.1
    detail = (
        f"success {alone['success']}, from {alone['first_success']} in its first "
        f"{LAST} updates; handed in {alone['handed_in']}; "
        f"needed acts done {alone['needed']}; "
        f"violations {alone['violations']}"
    )
    claim = "a penalty alone collapses into inaction"
    return Finding(claim, clean and idle, detail)


def potential_reaches(found: Figures) -> Finding:
    """Hold that an aligned potential revives dead groups and is faster.

    Source:
        Ng, Harada and Russell, ICML 1999, for the shaping; the result as in the
        project specification, E2 and E6.
    """
    plain, shaped = found["outcome"], found["outcome and potential"]
    fast = shaped["updates_to_goal"].mean <= 0.7 * plain["updates_to_goal"].mean
    alive = shaped["dead_updates"].mean == 0.0 < plain["dead_updates"].mean
    detail = (
        f"updates to {GOAL} success {plain['updates_to_goal']} by outcome alone, "
        f"{shaped['updates_to_goal']} with it; dead updates "
        f"{plain['dead_updates']} and {shaped['dead_updates']}"
    )
    claim = "an aligned potential leaves no dead update and is 30 % faster or more"
    return Finding(claim, fast and alive, detail)
