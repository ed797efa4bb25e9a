"""What happened in an episode, as rewards read it: turns, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlvr_envs.records import (
    ErrorKind,
    JsonObject,
    Outcome,
    Status,
    ToolCall,
    ToolCategory,
)

NEVER_RAN = frozenset(
    {ErrorKind.MALFORMED_CALL, ErrorKind.UNKNOWN_TOOL, ErrorKind.INVALID_ARGUMENTS}
)
"""Errors of calls that were refused before they touched the world."""

_ERROR_KINDS = {str(kind): kind for kind in ErrorKind}


@dataclass(frozen=True, slots=True)
class Act:
    """A call and what kind of call it is: all that a path predicate sees of it."""

    call: ToolCall
    category: ToolCategory

    @property
    def key(self) -> str:
        """The call as text; equal for equal calls, whatever their key order."""
        arguments = json.dumps(self.call.arguments, sort_keys=True, default=str)
        return f"{self.call.name} {arguments}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One tool call and its observation.

    Attributes:
        category: Of the tool, as its spec declares it.
        ok: Whether the call did what it asked; the agent can influence it.
        exit_code: -1 where there is none. The agent controls it.
        tokens: Action tokens of the turn, those that take loss; at least 0.
        reasoning_tokens: How many of them are reasoning.
        state: The world before the call, as far as the harness read it.
        void: The harness broke this call, not the agent: no channel counts it.

    Raises:
        ValueError: If a count is negative.
    """

    call: ToolCall
    observation: str = ""
    category: ToolCategory = ToolCategory.MUTATE
    ok: bool = True
    error_kind: ErrorKind = ErrorKind.NONE
    exit_code: int = -1
    tokens: int = 0
    reasoning_tokens: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)
    void: bool = False

    def __post_init__(self) -> None:
        if self.tokens < 0 or self.reasoning_tokens < 0:
            raise ValueError("A turn cannot have a negative number of tokens.")

    @property
    def act(self) -> Act:
        """The call and its category."""
        return Act(self.call, self.category)

    @property
    def ran(self) -> bool:
        """Whether the call got as far as the world."""
        return self.error_kind not in NEVER_RAN

    def as_category(self, category: ToolCategory) -> Turn:
        """Return the same turn under another category."""
        return Turn(
            self.call,
            self.observation,
            category,
            self.ok,
            self.error_kind,
            self.exit_code,
            self.tokens,
            self.reasoning_tokens,
            self.state,
            self.void,
        )

    @classmethod
    def from_info(
        cls,
        call: ToolCall,
        observation: str,
        info: JsonObject,
        *,
        category: ToolCategory = ToolCategory.MUTATE,
        tokens: int = 0,
    ) -> Turn:
        """Read a turn from what a step returned, or from its record.

        Keys that ``info`` lacks count as an ordinary success.
        """
        outcome = info.get("outcome") or {}
        kind = info.get("error_kind", "")
        return cls(
            call=call,
            observation=observation,
            category=category,
            ok=bool(info.get("ok", True)),
            error_kind=_ERROR_KINDS.get(kind, ErrorKind.NONE),
            exit_code=int(info.get("exit_code", -1)),
            tokens=tokens,
            void=outcome.get("status") == Status.INFRA_ERROR,
        )


@dataclass(frozen=True, slots=True)
class Episode:
    """One try at one task.

    Attributes:
        outcome: The verdict, unshaped.
        scripted: Whether a script played it, such as a compliant demonstration.
    """

    turns: tuple[Turn, ...]
    outcome: Outcome
    scripted: bool = False

    @property
    def reward(self) -> float:
        """The outcome channel, in [0, 1], whatever is layered on top."""
        return self.outcome.reward

    @property
    def passed(self) -> bool:
        """Whether all acceptance checks held."""
        return self.outcome.status is Status.PASSED

    @property
    def scorable(self) -> bool:
        """Whether the episode may enter any statistic."""
        return self.outcome.scorable

    @property
    def tokens(self) -> int:
        """Action tokens of all turns."""
        return sum(turn.tokens for turn in self.turns)


def scorable(episodes: Iterable[Episode]) -> tuple[Episode, ...]:
    """Return the episodes that carry a learning signal, in order.

    Source:
        Project specification, D5.
    """
    return tuple(episode for episode in episodes if episode.scorable)
