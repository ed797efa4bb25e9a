"""PathRules: what an episode did wrong and right on the way, turn by turn."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
from typing_extensions import override

from rlvr_envs.rewards.books import book_named
from rlvr_envs.rewards.path_rules import (
    Bounds,
    Ledger,
    PathEngine,
    PathTurn,
    RuleBook,
    Weights,
)
from rlvr_envs.wrappers.turns import tool_categories, turn_of


class PathRules(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Fills ``violations``, ``fulfilments`` and ``path_reward`` of each step's info.

    The reward and ``info["outcome"]`` pass through untouched. ``path_reward`` is
    bounded over the episode; for advantages, take the unbounded terms that
    `term` computes from the names. A rule may rest on an exit status, which the
    agent controls.

    Args:
        env: The environment; must have ``tool_specs``.
        book: ``"generic"`` (from tool categories), ``"terminal"``, or a rule book.
        penalty: Lambda, what a violation costs.
        credit: Beta, what a fulfilment earns.

    Attributes:
        path_weight: Annealing factor of both, in [0, 1]; set by the trainer, taken
            over by the next reset.

    Raises:
        CallerError: If the environment has no ``tool_specs``.
        ValueError: If the book is unknown or a weight is out of range.

    Source:
        Li and Shi, "RLVP: Penalize the Path, Reward the Outcome", arXiv:2607.07435.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        book: str | RuleBook = "generic",
        penalty: float = 0.25,
        credit: float = 0.25,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self, book=book, penalty=penalty, credit=credit
        )
        super().__init__(env)
        self.path_weight = 1.0
        self._categories = tool_categories(env)
        known = self._categories.values()
        self._book = book_named(book, known) if isinstance(book, str) else book
        self._weights = Weights(penalty, credit)
        self._engine = PathEngine(self._book, self._weights)
        self._ledger = Ledger()

    @property
    def rule_book(self) -> RuleBook:
        """The rules that are run."""
        return self._book

    def term(self, info: dict[str, Any]) -> float:
        """Return the unbounded path term of a step, from the names in its info."""
        return self._engine.term(info["violations"], info["fulfilments"])

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode with an empty ledger."""
        observation, info = self.env.reset(seed=seed, options=options)
        weights = self._weights.scaled(self.path_weight)
        self._engine = PathEngine(self._book, weights, Bounds())
        self._ledger = Ledger()
        return observation, {**info, **_entries(PathTurn())}

    @override
    def step(
        self, action: Any
    ) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, then judge the call by the state before it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        turn = turn_of(action, observation, info, self._categories)
        judged, self._ledger = self._engine.after(self._ledger, turn)
        entries = _entries(judged)
        return observation, reward, terminated, truncated, {**info, **entries}


def _entries(judged: PathTurn) -> dict[str, Any]:
    return {
        "violations": list(judged.violations),
        "fulfilments": list(judged.fulfilments),
        "path_reward": float(judged.reward),
    }
