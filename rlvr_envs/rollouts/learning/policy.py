"""A softmax over a menu of tool calls: a table of states, and a part they share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
State = tuple[frozenset[int], bool]

START: State = (frozenset(), True)
"""Which entries were chosen so far, and whether the last call did what it asked."""


def after(state: State, index: int, *, ok: bool) -> State:
    """Return the state that a choice and its result lead to."""
    return (state[0] | {index}, ok)


@dataclass(frozen=True, slots=True)
class Choice:
    """One decision: the state that it was made in, and the entry chosen."""

    state: State
    index: int


@dataclass(slots=True)
class Policy:
    """Chooses an entry with a chance proportional to ``exp(logit)``.

    The logit is the prior's, plus ``sharing`` times a linear function of the state,
    plus the state's own row of a table. The shared part lets what is learned in one
    state carry over to others, as in any larger model.

    Attributes:
        prior: Shape (entries, entries + 2); it never changes. Columns are the
            entries chosen so far, ``ok``, and a constant.
        sharing: At least 0; 0 is a plain table.
    """

    prior: Floats
    sharing: float = 0.3
    shared: Floats = field(init=False)
    table: dict[State, Floats] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.shared = np.zeros_like(self.prior)

    def chances(self, state: State) -> Floats:
        """Return the chance of each entry; they sum to 1."""
        seen = self._features(state)
        logits = self.prior @ seen + self.sharing * (self.shared @ seen)
        logits = logits + self.table.get(state, 0.0)
        raised = np.exp(logits - logits.max())
        return np.asarray(raised / raised.sum(), dtype=np.float64)

    def choose(self, state: State, rng: np.random.Generator) -> int:
        """Draw an entry."""
        return int(rng.choice(len(self.prior), p=self.chances(state)))

    def learn(self, credited: Iterable[tuple[Choice, float]], *, rate: float) -> float:
        """Take one step along the policy gradient.

        Args:
            credited: Choices, each with its advantage.
            rate: Of learning.

        Returns:
            The gradient's norm; 0.0 means that this update taught nothing.

        Source:
            Williams, "Simple statistical gradient-following algorithms for
            connectionist reinforcement learning", 1992 (REINFORCE).
        """
        rows: dict[State, Floats] = {}
        shared = np.zeros_like(self.shared)
        for choice, value in credited:
            error = -self.chances(choice.state)
            error[choice.index] += 1.0
            error = error * value
            shared += self.sharing * np.outer(error, self._features(choice.state))
            rows[choice.state] = rows.get(choice.state, 0.0) + error
        self.shared = self.shared + rate * shared
        for state, row in rows.items():
            self.table[state] = self.table.get(state, 0.0) + rate * row
        squares = [float((part**2).sum()) for part in (shared, *rows.values())]
        return float(np.sqrt(sum(squares)))

    def entropy(self, states: Iterable[State]) -> float:
        """Return the mean entropy over states, in nats; 0.0 for none."""
        chances = np.array([self.chances(state) for state in states])
        if not len(chances):
            return 0.0
        return float(-(chances * np.log(chances + 1e-12)).sum(axis=1).mean())

    def _features(self, state: State) -> Floats:
        done, ok = state
        seen = np.zeros(self.prior.shape[1])
        seen[list(done)] = 1.0
        seen[-2:] = float(ok), 1.0
        return seen
