"""registry.yaml as records: what exists, under which name, with which budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rlvr_envs.errors import WrongArgument
from rlvr_envs.records import Budget

_FILE = Path(__file__).parent / "registry.yaml"
_ROOT_KEYS = frozenset({"schema", "namespace", "sandboxes", "stacks", "envs"})


@dataclass(frozen=True, slots=True)
class StackLayer:
    """One wrapper of a stack: where its class is and what it is built with."""

    entry_point: str
    kwargs: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The class's name, by which callers override its keyword arguments."""
        return self.entry_point.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class EnvEntry:
    """One environment id.

    Attributes:
        id: Without the namespace: ``Terminal-v0``.
        reset_p95_ms: Ceiling that users were promised for a reset.
        kwargs: Defaults of the environment's own constructor.
    """

    id: str
    entry_point: str
    stack: str
    tasks: str
    budget: Budget
    reset_p95_ms: float
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole file."""

    namespace: str
    sandboxes: Mapping[str, str]
    stacks: Mapping[str, tuple[StackLayer, ...]]
    envs: tuple[EnvEntry, ...]

    def env(self, env_id: str) -> EnvEntry:
        """Return an entry by id, with or without the namespace.

        Raises:
            ValueError: If there is none; the message lists the ids.
        """
        short = env_id.removeprefix(f"{self.namespace}/")
        for entry in self.envs:
            if entry.id == short:
                return entry
        known = ", ".join(f"{self.namespace}/{entry.id}" for entry in self.envs)
        raise WrongArgument(
            f"No environment is called {env_id!r}.", remedy=f"choose from {known}"
        )

    def stack(self, name: str) -> tuple[StackLayer, ...]:
        """Return a wrapper stack by name, innermost first.

        Raises:
            ValueError: If there is none; the message lists the names.
        """
        if name not in self.stacks:
            known = ", ".join(sorted(self.stacks))
            raise WrongArgument(
                f"No wrapper stack is called {name!r}.", remedy=f"choose from {known}"
            )
        return self.stacks[name]

    def sandbox(self, name: str) -> str:
        """Return the entry point of a sandbox backend by name.

        Raises:
            ValueError: If there is none; the message lists the names.
        """
        if name not in self.sandboxes:
            known = ", ".join(sorted(self.sandboxes))
            raise WrongArgument(
                f"No sandbox is called {name!r}.", remedy=f"choose from {known}"
            )
        return self.sandboxes[name]


def parse(text: str, *, source: str = "registry.yaml") -> Manifest:
    """Read a manifest.

    Args:
        text: YAML.
        source: Its name, for messages.

    Raises:
        ValueError: If a key is unknown or missing, or a value has the wrong form.
    """
    data = yaml.safe_load(text)
    _known(data, _ROOT_KEYS, source)
    if data["schema"] != 1:
        raise ValueError(f"{source}: schema {data['schema']!r} is not known; 1 is.")
    stacks = {
        name: tuple(_layer(row, f"{source}: stack {name}") for row in rows)
        for name, rows in data["stacks"].items()
    }
    envs = tuple(_entry(row, source) for row in data["envs"])
    for entry in envs:
        if entry.stack not in stacks:
            raise ValueError(f"{source}: {entry.id} names no stack: {entry.stack!r}.")
    return Manifest(data["namespace"], dict(data["sandboxes"]), stacks, envs)


@cache
def manifest() -> Manifest:
    """Return the packaged registry.yaml, read once."""
    return parse(_FILE.read_text(encoding="utf-8"))


def _known(row: Any, keys: frozenset[str], where: str) -> None:
    if not isinstance(row, dict) or set(row) != keys:
        got = sorted(row) if isinstance(row, dict) else type(row).__name__
        raise ValueError(f"{where}: expected the keys {sorted(keys)}, got {got}.")


def _layer(row: Mapping[str, Any], where: str) -> StackLayer:
    full = {"kwargs": {}, **row}
    _known(full, frozenset({"entry_point", "kwargs"}), where)
    return StackLayer(full["entry_point"], dict(full["kwargs"]))


def _entry(row: Mapping[str, Any], source: str) -> EnvEntry:
    full = {"kwargs": {}, **row}
    names = frozenset(item.name for item in fields(EnvEntry))
    _known(full, names, f"{source}: env {row.get('id', '?')}")
    values = {name: full[name] for name in names}
    values["budget"] = Budget(**values["budget"])
    return EnvEntry(**values)
