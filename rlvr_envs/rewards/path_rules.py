"""The path channel: pure rules over (state before, act), and the engine that runs them.

A rule fires on what an agent *does*, never on what it has not achieved. The state
before an act is folded from the calls and results so far; part of it, such as
whether a call succeeded, rests on an exit status. The agent controls that status
(``false || true`` succeeds), which is why this channel is bounded, pays no outcome,
and is never evidence of anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from rlvr_envs.records import ToolCategory
from rlvr_envs.rewards.episode import Act, Turn

State = Mapping[str, Any]
Predicate = Callable[[State, Act], bool]
Obligation = Callable[[State, Act], str]
Fold = Callable[[State, Turn], State]
Classify = Callable[[Act], ToolCategory]

EMPTY: State = MappingProxyType({})


def as_declared(act: Act) -> ToolCategory:
    """Return the category that the tool's spec declares."""
    return act.category


@dataclass(frozen=True, slots=True)
class PathRule:
    """One row: what is penalised, what is credited for it, and the proof that it can be.

    Attributes:
        name: As it appears in ``info["violations"]`` and ``info["fulfilments"]``.
        violates: Whether the act is one to penalise, given the state before it.
        fulfils: The obligation that the act meets, or ``""`` for none. Each is paid
            once in an episode, even if it is undone and met again.
        penalty: Factor of lambda, in (0, 1].
        credit: Factor of beta, in [0, 1]; 0 leaves the penalty unpaired, which the
            linter refuses.
        demonstration: A compliant path on which the credit falls due.
        fires: A path whose last act violates the rule.
        spares: The nearest path whose last act does not.

    Raises:
        ValueError: If a factor is out of range.

    Source:
        Li and Shi, "RLVP: Penalize the Path, Reward the Outcome",
        arXiv:2607.07435; as in the project specification, E5.
    """

    name: str
    violates: Predicate
    fulfils: Obligation
    penalty: float = 1.0
    credit: float = 1.0
    demonstration: tuple[Turn, ...] = ()
    fires: tuple[Turn, ...] = ()
    spares: tuple[Turn, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 < self.penalty <= 1.0:
            raise ValueError(f"A penalty factor is in (0, 1], not {self.penalty!r}.")
        if not 0.0 <= self.credit <= 1.0:
            raise ValueError(f"A credit factor is in [0, 1], not {self.credit!r}.")


@dataclass(frozen=True, slots=True)
class RuleBook:
    """Rules, and how the state that they read is folded.

    Attributes:
        fold: Returns the state after a turn. It sees no void turn.
        classify: Refines a tool's category by the call, where one tool does many
            kinds of things (a shell).

    Raises:
        ValueError: If two rules share a name.
    """

    name: str
    rules: tuple[PathRule, ...]
    fold: Fold
    classify: Classify = as_declared

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            raise ValueError(f"Two rules of book {self.name!r} share a name: {names}.")

    def seen(self, turn: Turn) -> Turn:
        """Return the turn with its category refined."""
        category = self.classify(turn.act)
        return turn if category is turn.category else turn.as_category(category)

    def state_after(self, turns: Sequence[Turn]) -> State:
        """Return the state that a history leads to, from an untouched world."""
        state = EMPTY
        for turn in turns:
            state = self._folded(state, self.seen(turn))
        return state

    def _folded(self, state: State, turn: Turn) -> State:
        return state if turn.void else self.fold(state, turn)


def _not_negative(record: object, *names: str) -> None:
    for name in names:
        value = getattr(record, name)
        if not (math.isfinite(value) and value >= 0.0):
            raise ValueError(f"{name} is finite and not negative, not {value!r}.")


@dataclass(frozen=True, slots=True)
class Weights:
    """What a violation costs (lambda) and a fulfilment earns (beta).

    Attributes:
        penalty: Lambda, at least 0.
        credit: Beta, at least 0.

    Raises:
        ValueError: If a weight is negative or not finite.

    Source:
        Project specification, E5: 0.5 each as reference, 0.25 in the full recipe.
    """

    penalty: float = 0.25
    credit: float = 0.25

    def __post_init__(self) -> None:
        _not_negative(self, "penalty", "credit")

    def scaled(self, factor: float) -> Weights:
        """Return both weights times an annealing factor."""
        return Weights(self.penalty * factor, self.credit * factor)


REFERENCE = Weights(0.5, 0.5)
"""Lambda and beta of the reference runs."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Most that an episode loses by penalties and gains by credits, as a scalar.

    Together below 1, so that a failure with every credit stays below a success with
    every penalty. The defaults leave room for full hygiene (0.099) and repetition
    (0.15) as well.

    Raises:
        ValueError: If the two could change the order of a failure and a success.

    Source:
        Own rule: ARCHITECTURE.md#reward-channels.
    """

    penalties: float = 0.35
    credits: float = 0.35

    def __post_init__(self) -> None:
        _not_negative(self, "penalties", "credits")
        if self.penalties + self.credits >= 1.0:
            raise ValueError(
                "Bounds on penalties and credits must sum to less than 1: a failure "
                "could end above a success. Lower one of them."
            )


@dataclass(frozen=True, slots=True)
class PathTurn:
    """What the path channel says of a turn.

    Attributes:
        term: -lambda and +beta of the rules, unbounded: for advantages.
        reward: What is left of it within the episode's bounds: for scalars.
    """

    violations: tuple[str, ...] = ()
    fulfilments: tuple[str, ...] = ()
    term: float = 0.0
    reward: float = 0.0


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where an episode stands on the path channel; sums are at least 0."""

    state: State = field(default_factory=lambda: EMPTY)
    met: frozenset[tuple[str, str]] = frozenset()
    lost: float = 0.0
    gained: float = 0.0


@dataclass(frozen=True, slots=True)
class PathEngine:
    """Runs a rule book over an episode, one turn at a time."""

    book: RuleBook
    weights: Weights = field(default_factory=Weights)
    bounds: Bounds = field(default_factory=Bounds)

    def after(self, ledger: Ledger, turn: Turn) -> tuple[PathTurn, Ledger]:
        """Judge a turn by the state before it, then fold it into the state.

        A void turn is neither judged nor folded. A call that was refused before it
        ran can violate but never fulfil.
        """
        if turn.void:
            return PathTurn(), ledger
        seen = self.book.seen(turn)
        act = seen.act
        violated = self._violated(ledger, act)
        met = self._newly_met(ledger, act) if seen.ran else {}
        lost = min(ledger.lost - self.term(violated, ()), self.bounds.penalties)
        gained = min(ledger.gained + self.term((), met), self.bounds.credits)
        judged = PathTurn(
            violations=violated,
            fulfilments=tuple(met),
            term=self.term(violated, met),
            reward=(gained - ledger.gained) - (lost - ledger.lost),
        )
        state = self.book.fold(ledger.state, seen)
        return judged, Ledger(state, ledger.met | set(met.items()), lost, gained)

    def score(self, turns: Sequence[Turn]) -> tuple[PathTurn, ...]:
        """Judge every turn of an episode, oldest first."""
        ledger, judged = Ledger(), []
        for turn in turns:
            item, ledger = self.after(ledger, turn)
            judged.append(item)
        return tuple(judged)

    def term(self, violations: Collection[str], fulfilments: Collection[str]) -> float:
        """Return a turn's unbounded term again, from the names that were recorded.

        Raises:
            KeyError: If a name is no rule of the book.
        """
        if not (violations or fulfilments):
            return 0.0
        rows = {rule.name: rule for rule in self.book.rules}
        loss = math.fsum(rows[name].penalty for name in violations)
        gain = math.fsum(rows[name].credit for name in fulfilments)
        return self.weights.credit * gain - self.weights.penalty * loss

    def _violated(self, ledger: Ledger, act: Act) -> tuple[str, ...]:
        rows = self.book.rules
        return tuple(row.name for row in rows if row.violates(ledger.state, act))

    def _newly_met(self, ledger: Ledger, act: Act) -> dict[str, str]:
        """Return rule name to obligation, for what was not met before."""
        named = {
            row.name: row.fulfils(ledger.state, act)
            for row in self.book.rules
            if row.credit
        }
        return {
            name: what
            for name, what in named.items()
            if what and (name, what) not in ledger.met
        }
