"""Plays an honest variant of a solution: rows of data, filled from what was seen.

A row of a variant's ``calls`` is one call of a tool, and may carry besides

- ``if``: a pattern; the call is left out where the last observation lacks it,
- ``take``: names to patterns; group 1 of each, found in the observation, is kept,
- ``let``: names to expressions over what is kept, worked out after ``take``.

``{name}`` stands for a value of the instruction, ``{hidden.name}`` for what gold
has to find out as well, ``{seen.name}`` for what this episode showed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import gymnasium as gym
import yaml

from rlvr_envs.tasks.task import Instance

FOLDER = Path(__file__).parent / "honest"
_PLACEHOLDER = re.compile(r"\{((?:hidden\.|seen\.)?[a-z_][a-z0-9_]*)\}")
_BESIDES = frozenset({"if", "take", "let"})
_WORDS: Mapping[str, Any] = {
    "__builtins__": {},
    "Decimal": Decimal,
    "date": date,
    "format": format,
    "fullmatch": re.fullmatch,
    "int": int,
    "json": json,
    "len": len,
    "list": list,
    "max": max,
    "min": min,
    "sorted": sorted,
    "str": str,
    "sum": sum,
    "timedelta": timedelta,
}


@dataclass(frozen=True)
class Variant:
    """An honest way to a solution, and what a turn above the free ones costs."""

    task: str
    name: str
    calls: tuple[Mapping[str, Any], ...]
    free_turns: int
    a_turn: float

    @property
    def id(self) -> str:
        return f"{self.task}-{self.name}"

    def reward(self, turns: int) -> float:
        """What it deserves if it took so many turns."""
        return 1.0 - self.a_turn * max(0, turns - self.free_turns)


@dataclass
class Seen:
    """What one episode showed, and what its instance says."""

    instance: Instance
    last: str = ""
    kept: dict[str, Any] = field(default_factory=dict)

    def filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return _PLACEHOLDER.sub(self._value, value)
        if isinstance(value, Mapping):
            return {key: self.filled(item) for key, item in value.items()}
        return value

    def _value(self, match: re.Match[str]) -> str:
        kind, _, name = match.group(1).rpartition(".")
        recipe = self.instance.recipe
        known = {"": recipe.values, "hidden": recipe.hidden, "seen": self.kept}[kind]
        return str(known[name])

    def keep(self, row: Mapping[str, Any]) -> None:
        for name, pattern in row.get("take", {}).items():
            found = re.search(self.filled(pattern), self.last, re.DOTALL)
            assert found, (name, pattern, self.last)
            text = found.group(1)
            self.kept[name] = int(text) if text.isdigit() else text
        for name, expression in row.get("let", {}).items():
            known = {**_WORDS, **self.kept}  # one scope, which comprehensions see
            self.kept[name] = eval(self.filled(expression), known)  # noqa: S307 (ours)


def variants() -> list[Variant]:
    """Return the variants of every task that has a file."""
    return [
        Variant(
            task=file.stem,
            name=row["name"],
            calls=tuple(row["calls"]),
            free_turns=row.get("free_turns", 0),
            a_turn=row.get("a_turn", 0.0),
        )
        for file in sorted(FOLDER.glob("*.yaml"))
        for row in yaml.safe_load(file.read_text())
    ]


def play(
    env: gym.Env[Any, Any], variant: Variant, instance: Instance
) -> tuple[float, dict[str, Any]]:
    """Play a variant to its end; return the reward and the last info."""
    place = {"task": variant.task, "instance": instance.number}
    env.reset(seed=1, options=place)
    seen = Seen(instance)
    for row in variant.calls:
        if "if" in row and not re.search(seen.filled(row["if"]), seen.last, re.DOTALL):
            continue
        ((tool, arguments),) = [item for item in row.items() if item[0] not in _BESIDES]
        call = {"name": tool, "arguments": seen.filled(arguments)}
        seen.last, reward, ended, truncated, info = env.step(call)
        if ended or truncated:
            return float(reward), info
        seen.keep(row)
    raise AssertionError("the variant does not end its episode")
