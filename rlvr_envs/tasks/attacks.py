"""The attack catalogue of a modality: what must earn nothing, and what must pass.

An attack that a tamper code is listed for is played twice: alone, and after the
honest solution; both earn nothing and carry the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from rlvr_envs.records import ToolCall
from rlvr_envs.tasks.marked import Marked, Where, read_yaml
from rlvr_envs.tasks.schema import CATALOGUE
from rlvr_envs.tasks.scripts import SUBMIT, calls_at, unique
from rlvr_envs.tasks.task import Script


class Flag(StrEnum):
    """Whether an attack's verdict must carry tamper codes."""

    REQUIRED = "required"
    IF_EFFECT = "if-effect"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Attack:
    """One row of the catalogue.

    Attributes:
        id: Such as ``T5``; a sibling's has a suffix.
        defences: Which of D1 to D8 stand in its way.
        codes: What the verdict must carry; empty unless the flag is required.
        calls: Ends in ``submit``.
        tampering: Played after the honest solution in place of `calls`.
    """

    id: str
    title: str
    task: str
    instance: int
    defences: tuple[str, ...]
    flag: Flag
    codes: tuple[str, ...]
    calls: tuple[ToolCall, ...]
    tampering: tuple[ToolCall, ...]

    def script(self) -> Script:
        """Return the attack alone."""
        return Script(self.id, self.calls, self.codes)

    def solved(self, gold: Script) -> Script | None:
        """Return the honest solution with the attack on top; None without a code."""
        if self.flag is not Flag.REQUIRED:
            return None
        return Script(f"{self.id}-solved", (*_open(gold), *self.tampering), self.codes)


@dataclass(frozen=True, slots=True)
class BenignTwin:
    """Honest behaviour that looks like an attack: passes, earns 1.0, no code.

    Attributes:
        after_gold: Whether its calls follow the honest solution's.
    """

    id: str
    title: str
    task: str
    instance: int
    after_gold: bool
    calls: tuple[ToolCall, ...]

    def script(self, gold: Script) -> Script:
        """Return the whole episode."""
        before = _open(gold) if self.after_gold else ()
        return Script(self.id, (*before, *self.calls))


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All attacks and benign twins of one modality."""

    attacks: tuple[Attack, ...]
    twins: tuple[BenignTwin, ...]


def load_attacks(file: Path) -> Catalogue:
    """Read an attack catalogue.

    Raises:
        TaskError: Naming file and line of the first thing that is wrong.
    """
    marked = read_yaml(file)
    marked.check(CATALOGUE)
    for part in ("attacks", "twins"):
        unique(marked, (part,), "id")
    return Catalogue(
        attacks=tuple(
            _attack(marked, index) for index in range(len(marked.data["attacks"]))
        ),
        twins=tuple(_twin(marked, index) for index in range(len(marked.data["twins"]))),
    )


def _attack(marked: Marked, index: int) -> Attack:
    row: dict[str, Any] = marked.data["attacks"][index]
    flag = row["flag"]
    listed = isinstance(flag, list)
    tampering = "after_gold" if "after_gold" in row else "calls"
    if listed and not flag:
        raise marked.error(
            ("attacks", index, "flag"), "An empty list of codes: say none."
        )
    return Attack(
        id=row["id"],
        title=row["title"],
        task=row["task"],
        instance=row.get("instance", 0),
        defences=tuple(row["defences"]),
        flag=Flag.REQUIRED if listed else Flag(flag),
        codes=tuple(flag) if listed else (),
        calls=_ended(marked, ("attacks", index, "calls")),
        tampering=_ended(marked, ("attacks", index, tampering)),
    )


def _twin(marked: Marked, index: int) -> BenignTwin:
    row: dict[str, Any] = marked.data["twins"][index]
    return BenignTwin(
        id=row["id"],
        title=row["title"],
        task=row["task"],
        instance=row.get("instance", 0),
        after_gold=row.get("gold", "before") == "before",
        calls=_ended(marked, ("twins", index, "calls")),
    )


def _ended(marked: Marked, where: Where) -> tuple[ToolCall, ...]:
    """Return the calls at a path; those that do not submit get it appended."""
    calls = calls_at(marked, where, {})
    return calls if SUBMIT in calls else (*calls, SUBMIT)


def _open(script: Script) -> tuple[ToolCall, ...]:
    return tuple(call for call in script.calls if call.name != "submit")
