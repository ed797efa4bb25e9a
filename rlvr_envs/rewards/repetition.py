"""Repetition shaping: a turn that asks and hears again what an earlier one did."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlvr_envs.records import ToolCall
from rlvr_envs.rewards.episode import Turn
from rlvr_envs.rewards.shell import split_words

Tokens = frozenset[str]


def shell_words(call: ToolCall) -> Tokens:
    """Split a call into the tool's name, its command's words, its other arguments.

    The command loses surplus blanks and comments, so that ``ls``, ``ls `` and
    ``ls # 1`` are one command. Any other argument is one token whole: a file written
    again with other content is another call.
    """
    tokens = {call.name}
    for name, value in call.arguments.items():
        if name == "command" and isinstance(value, str):
            tokens.update(split_words(value))
        else:
            tokens.add(f"{name}={value}")
    return frozenset(tokens)


def verbatim(call: ToolCall) -> Tokens:
    """Keep each argument whole, blanks and comments included."""
    pairs = (f"{name}={value}" for name, value in call.arguments.items())
    return frozenset({call.name, *pairs})


def whole(observation: str) -> Tokens:
    """Take the observation as one token: a digest of it without blanks at its ends.

    The world is deterministic, so an answer that changed at all is news. With this
    tokenisation similarity is 1 or 0 and honest polling is free, however long and
    however alike its answers are.
    """
    data = observation.strip().encode("utf-8", "surrogatepass")
    return frozenset({hashlib.blake2b(data, digest_size=16).hexdigest()})


def words(observation: str) -> Tokens:
    """Take the observation as a set of words.

    Answers that differ in few words count as the same, which also catches loops
    whose answers carry noise, at the price of charging for long polled answers.
    """
    return frozenset(observation.split())


def jaccard(one: Tokens, other: Tokens) -> float:
    """Return the share of tokens in common, in [0, 1]; 1.0 for two empty sets."""
    if one == other:
        return 1.0
    common = len(one & other)
    return common / (len(one) + len(other) - common)


@dataclass(frozen=True, slots=True)
class RepetitionRule:
    """When a turn is a repeat, and what it costs.

    Attributes:
        threshold: Both similarities must be above it; in [0, 1).
        penalty: Of one repeat, in advantage units, at least 0.
        cap: Most that one episode pays, at least 0.
        command_tokens: How a call is tokenised.
        observation_tokens: How an observation is tokenised.

    Raises:
        ValueError: If a number is out of range.

    Source:
        Yao et al., "Learning Generalizable Behaviors for Terminal Agents" (RIVER),
        arXiv:2608.22631; figures as in the project specification, E4. The
        tokenisation is our own: ARCHITECTURE.md#reward-channels.
    """

    threshold: float = 0.8
    penalty: float = 0.05
    cap: float = 0.15
    command_tokens: Callable[[ToolCall], Tokens] = shell_words
    observation_tokens: Callable[[str], Tokens] = whole

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold < 1.0:
            raise ValueError(f"threshold lies in [0, 1), not {self.threshold!r}.")
        for name in ("penalty", "cap"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"{name} is finite and not negative, not {value!r}.")


class _Heard(NamedTuple):
    command: Tokens
    observation: Tokens


@dataclass(frozen=True, slots=True)
class Memory:
    """What an episode said and heard so far, and how many repeats it has had."""

    heard: tuple[_Heard, ...] = ()
    repeats: int = 0


@dataclass(frozen=True, slots=True)
class Repetition:
    """The fold over an episode's turns."""

    rule: RepetitionRule = field(default_factory=RepetitionRule)

    def after(self, memory: Memory, turn: Turn) -> tuple[float, Memory]:
        """Return the turn's penalty (0.0 or below) and what is remembered after it.

        A void turn costs nothing and is forgotten, so a retry after a fault of the
        harness is free.
        """
        if turn.void:
            return 0.0, memory
        rule = self.rule
        now = _Heard(
            rule.command_tokens(turn.call), rule.observation_tokens(turn.observation)
        )
        repeated = any(self._alike(now, before) for before in memory.heard)
        repeats = memory.repeats + repeated
        owed = self._paid(repeats) - self._paid(memory.repeats)
        return (-owed if owed else 0.0), Memory((*memory.heard, now), repeats)

    def _alike(self, now: _Heard, before: _Heard) -> bool:
        return (
            jaccard(now.command, before.command) > self.rule.threshold
            and jaccard(now.observation, before.observation) > self.rule.threshold
        )

    def _paid(self, repeats: int) -> float:
        return min(repeats * self.rule.penalty, self.rule.cap)


def repetition_penalties(
    turns: Sequence[Turn], *, rule: RepetitionRule | None = None
) -> NDArray[np.float64]:
    """Return what repetition takes off each turn's advantage.

    Add it after group normalisation: the outcome reward does not change, and a group
    in which every episode repeats itself still learns not to.

    Args:
        turns: Of one episode, oldest first; may be empty.
        rule: RIVER's figures if left out.

    Returns:
        Shape (turns,), each 0.0 or below; the sum is at least ``-rule.cap``.
    """
    fold = Repetition(rule or RepetitionRule())
    memory, penalties = Memory(), []
    for turn in turns:
        penalty, memory = fold.after(memory, turn)
        penalties.append(penalty)
    return np.asarray(penalties, dtype=np.float64)
