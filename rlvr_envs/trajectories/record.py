"""What is kept of an episode, as typed records over lines of JSON.

One line is one event. Its ``kind`` says which:

header   once, first: who, what and on which digests; ``schema`` is the version
reset    once: the first observation and its info
turn     one tool call: as given, as parsed, and everything `step` returned
timing   seconds of the reset or of one turn; never compared
policy   who decided on the calls; never compared
message  what the policy said beside its calls; never compared
state    where the final state was put, and its digest; never compared
footer   once, last: how the episode ended

Lines of other kinds are kept and ignored, so that later versions can add some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from rlvr_envs.records import JsonObject
from rlvr_envs.trajectories.encoding import encode

SCHEMA = 1


class Kind(StrEnum):
    """What a line is."""

    HEADER = "header"
    RESET = "reset"
    TURN = "turn"
    TIMING = "timing"
    POLICY = "policy"
    MESSAGE = "message"
    STATE = "state"
    FOOTER = "footer"


COMPARED = frozenset({Kind.RESET, Kind.TURN})
"""Kinds whose lines must be the same, byte for byte, when an episode is replayed."""


class Ending(StrEnum):
    """Why the record ends where it does."""

    TERMINATED = "terminated"
    TRUNCATED = "truncated"
    ABANDONED = "abandoned"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Turn:
    """One tool call and what came of it.

    Attributes:
        number: From 1.
        action: As the agent gave it.
        call: Parsed, ``{"name": ..., "arguments": {...}}``; empty if malformed.
        channels: ``outcome`` and ``path``, the two reward channels of this turn.
    """

    number: int
    action: Any
    call: JsonObject
    observation: str
    info: JsonObject
    reward: float
    terminated: bool
    truncated: bool
    channels: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return the line as plain data."""
        return {
            "kind": Kind.TURN,
            "turn": self.number,
            "action": self.action,
            "call": self.call,
            "observation": self.observation,
            "info": self.info,
            "reward": self.reward,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "channels": self.channels,
        }

    @classmethod
    def from_json(cls, line: JsonObject) -> Turn:
        """Read a line of kind ``turn``."""
        return cls(
            number=line["turn"],
            action=line["action"],
            call=line["call"],
            observation=line["observation"],
            info=line["info"],
            reward=line["reward"],
            terminated=line["terminated"],
            truncated=line["truncated"],
            channels=line["channels"],
        )


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The record of one episode.

    Attributes:
        lines: Every whole line, decoded, in order.
        path: The file it was read from; ``None`` for one that is in memory only.
        torn_bytes: Length of an unfinished last line, which was left out; 0 if the
            file ends where a line ends.
    """

    lines: tuple[JsonObject, ...]
    path: Path | None = None
    torn_bytes: int = 0

    @property
    def header(self) -> JsonObject:
        """The first line; empty if the file was cut within it."""
        return next(self.of(Kind.HEADER), {})

    @property
    def opening(self) -> JsonObject:
        """The line of the reset; empty if the file was cut before it."""
        return next(self.of(Kind.RESET), {})

    @property
    def turns(self) -> Sequence[Turn]:
        """Every whole turn, in order."""
        return tuple(Turn.from_json(line) for line in self.of(Kind.TURN))

    @property
    def footer(self) -> JsonObject:
        """The last word on the episode; empty while it lives or if it was cut."""
        return next(self.of(Kind.FOOTER), {})

    @property
    def outcome(self) -> JsonObject:
        """``info["outcome"]`` of the last turn; empty if there was no verdict."""
        outcome: JsonObject = self.footer.get("outcome", {})
        return outcome

    @property
    def complete(self) -> bool:
        """Whether the episode was recorded to its end."""
        return bool(self.footer) and not self.torn_bytes

    @property
    def actions(self) -> Sequence[Any]:
        """The actions, as the agent gave them."""
        return tuple(turn.action for turn in self.turns)

    def of(self, kind: Kind) -> Iterator[JsonObject]:
        """Yield the lines of one kind."""
        return (line for line in self.lines if line.get("kind") == kind)

    def compared(self) -> Sequence[bytes]:
        """Return what a replay must repeat byte for byte: the reset, then turns."""
        return [encode(line) for line in self.lines if line.get("kind") in COMPARED]
