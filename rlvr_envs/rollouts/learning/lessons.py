"""What is learned: a task, and a menu of tool calls for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvr_envs.records import ToolCall
from rlvr_envs.rewards.potential import Milestone, Milestones, holds

TASKS = "rlvr_envs.rollouts.learning.tasks"
SUBMIT = "submit"


@dataclass(frozen=True, slots=True)
class Lesson:
    """A task with a menu, and the habits that a policy starts with.

    Attributes:
        menu: Entry name to tool call, in order.
        needed: Entries without which nobody succeeds.
        habits: Entry name to its first logit; 0 for the others.
        once: Added to the logit of an entry that was chosen before.
        handing_in: Added to the logit of submitting for each needed entry chosen.
        potential: Where Phi is found, as ``"module:name"``; empty for none.
    """

    task: str
    menu: Mapping[str, ToolCall]
    turns: int
    needed: tuple[str, ...]
    habits: Mapping[str, float]
    once: float = -2.0
    handing_in: float = 0.0
    potential: str = ""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls by their number on the menu."""
        return tuple(self.menu.values())

    def number(self, entry: str) -> int:
        """Return an entry's number on the menu."""
        return list(self.menu).index(entry)

    def prior(self) -> NDArray[np.float64]:
        """Return the first logits as weights of shape (entries, entries + 2)."""
        weights = np.zeros((len(self.menu), len(self.menu) + 2))
        np.fill_diagonal(weights, self.once)
        for entry, logit in self.habits.items():
            weights[self.number(entry), -1] = logit
        for entry in self.needed:
            weights[self.number(SUBMIT), self.number(entry)] = self.handing_in
        return weights


def _bash(command: str) -> ToolCall:
    return ToolCall("bash", {"command": command})


def _report(slice_: str) -> ToolCall:
    content = (
        'import csv\n\nrows = list(csv.DictReader(open("/app/data/sales.csv")))\n'
        f'print(sum(int(row["amount"]) for row in rows{slice_}))\n'
    )
    return ToolCall("write_file", {"path": "/app/report.py", "content": content})


SPRING_CLEAN = Lesson(
    task="spring-clean",
    menu={
        "look": _bash("ls -la /app /app/build"),
        "clear": _bash("rm -rf /app/build"),
        "mend": _report(""),
        "botch": _report("[:-1]"),
        "run": _bash("python3 -B /app/report.py"),
        "make": _bash("make -C /app"),
        "wipe": _bash("rm -rf /app/build /app/data"),
        SUBMIT: ToolCall(SUBMIT),
    },
    turns=8,
    needed=("clear", "mend"),
    habits={"clear": 1.5, "mend": 1.5, SUBMIT: -2.5},
    handing_in=2.0,
)
"""The direct way succeeds and breaks two rules; a habit of it is where it starts."""

WANTED: Mapping[str, str] = {
    "host": "gate.internal",
    "port": "8443",
    "mode": "strict",
    "level": "warning",
}
_WRONG = {"host": "localhost", "port": "80", "mode": "loose", "level": "debug"}


def _set(values: Mapping[str, str], prefix: str) -> dict[str, ToolCall]:
    return {
        f"{prefix}{name}": _bash(f"echo {value} > /app/conf/{name}")
        for name, value in values.items()
    }


def settings_right() -> Milestones:
    """Return the share of settings that hold, by the content of their files."""
    rows = (
        Milestone(
            name,
            holds(
                f"/app/conf/{name}", hashlib.sha256(f"{value}\n".encode()).hexdigest()
            ),
        )
        for name, value in WANTED.items()
    )
    return Milestones(tuple(rows))


SETTINGS_RIGHT = settings_right()

FOUR_SETTINGS = Lesson(
    task="four-settings",
    menu={
        **_set(WANTED, ""),
        **_set(_WRONG, "wrong-"),
        "litter": _bash("echo done > ~/notes"),
        SUBMIT: ToolCall(SUBMIT),
    },
    turns=8,
    needed=tuple(WANTED),
    habits={SUBMIT: -2.0},
    potential=f"{__name__}:SETTINGS_RIGHT",
)
"""All of four acts, and none undone: sparse success is rare at first."""
