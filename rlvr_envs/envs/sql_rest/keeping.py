"""The course of an episode, kept: what other episodes can begin from.

A database is what its seed and the calls made of it. The world is deterministic, so
that the calls, played again on a fresh clone, lead to the same state; whether they
did is seen by comparing every observation.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlvr_envs.errors import SnapshotError, boundary
from rlvr_envs.records import Layer, ToolCall, digest_of

FILE = "course.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Move:
    """One call, and the digest of what was shown for it.

    Attributes:
        seed: Of the randomness inside.
    """

    turn: int
    seed: int
    name: str
    arguments: Any
    shown: str

    @property
    def call(self) -> ToolCall:
        """The call."""
        return ToolCall(self.name, self.arguments)


@dataclass(frozen=True, slots=True)
class Course:
    """What led to a state.

    Attributes:
        turns: How many there were; one whose call nobody could read is no move.
        ended: Whether the episode was over: nothing can be added but its verdict.
    """

    turns: int
    ended: bool
    moves: tuple[Move, ...] = ()

    def play(self, act: Callable[[Move], str]) -> None:
        """Make every move again.

        Args:
            act: Makes one, and returns what it showed.

        Raises:
            SnapshotError: If one shows something else than it did.
        """
        for move in self.moves:
            if digest_of_text(act(move)) != move.shown:
                raise SnapshotError(
                    f"Turn {move.turn} of a kept episode shows something else now.",
                    remedy="record the episode again",
                )


@dataclass(frozen=True, slots=True)
class KeptCourse:
    """A course as a layer with an owner."""

    layer: Layer
    folder: Path

    def close(self) -> None:
        """Remove its file; idempotent."""
        shutil.rmtree(self.folder, ignore_errors=True)


def digest_of_text(text: str) -> str:
    """Return a digest of an observation."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def keep(course: Course) -> KeptCourse:
    """Write a course into a folder of its own.

    Raises:
        SnapshotError: If it cannot be written.
    """
    data = json.dumps({"format": _FORMAT, **asdict(course)}, sort_keys=True).encode()
    with boundary(SnapshotError, "keeping the course of an episode"):
        folder = Path(tempfile.mkdtemp(prefix="rlvr-course-"))
        (folder / FILE).write_bytes(data)
    return KeptCourse(Layer(digest_of(["course", data]), folder), folder)


def read(layers: Sequence[Layer]) -> Course:
    """Read the course that the uppermost layer holds: it goes back to the seed.

    Raises:
        SnapshotError: If it holds none.
    """
    with boundary(SnapshotError, "reading the course of an episode"):
        data = json.loads((layers[-1].path / FILE).read_bytes())
        if data.pop("format") != _FORMAT:
            raise SnapshotError("The course of an episode is of another format.")
        moves = tuple(Move(**move) for move in data.pop("moves"))
        return Course(**data, moves=moves)
