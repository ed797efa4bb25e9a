"""Policies: what decides on the next tool call.

A policy is a callable of observation, info and tool specs. A *maker* builds one for
an episode that has just been reset, since gold depends on the instance and chance on
the seed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import yaml

from rlvr_envs import seeding
from rlvr_envs.errors import CallerError
from rlvr_envs.records import ToolCategory, ToolSpec
from rlvr_envs.tasks import scripts
from rlvr_envs.tasks.task import Instance, Script

Action = Any
"""A tool call as `step` takes it: a mapping or its JSON text."""


class Policy(Protocol):
    """Decides on one tool call at a time; used for one episode."""

    def __call__(
        self, observation: str, info: Mapping[str, Any], tools: Sequence[ToolSpec], /
    ) -> Action:
        """Return the next action."""


@runtime_checkable
class Speaks(Protocol):
    """A policy that says things beside its calls."""

    def take_messages(self) -> Sequence[Mapping[str, Any]]:
        """Return what was said since the last time, oldest first."""


Maker = Callable[[gym.Env[Any, Any], int], Policy]
"""Builds a policy for a freshly reset environment and the episode's seed."""


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy's name and its maker."""

    name: str
    make: Maker


class Scripted:
    """Plays calls in order; where they run out it submits."""

    def __init__(self, calls: Iterable[Action]) -> None:
        self._calls = iter(tuple(calls))

    def __call__(
        self, _observation: str, _info: Mapping[str, Any], tools: Sequence[ToolSpec], /
    ) -> Action:
        """Return the next call of the script."""
        return next(self._calls, None) or submission(tools)


class Sampled:
    """Samples schema-valid calls from the action space, seeded."""

    def __init__(self, space: gym.Space[Any], seed: int) -> None:
        self._space = copy.deepcopy(space)
        self._space.seed(int(seeding.generator("policy", seed).integers(2**31)))

    def __call__(
        self, _observation: str, _info: Mapping[str, Any], _: Sequence[ToolSpec], /
    ) -> Action:
        """Return a sample."""
        return self._space.sample()


def submission(tools: Sequence[ToolSpec]) -> Action:
    """Return the call that ends an episode.

    Raises:
        CallerError: If no tool ends one.
    """
    for tool in tools:
        if tool.category is ToolCategory.TERMINAL:
            return {"name": tool.name, "arguments": {}}
    raise CallerError(
        "This environment has no tool that submits.",
        remedy="give the script a last call that ends the episode",
    )


def scripted(script: Script) -> Policy:
    """Return the policy that plays a task's script."""
    return Scripted(call.to_json() for call in script.calls)


def calls_from(path: Path) -> Sequence[Action]:
    """Read calls from a file.

    Args:
        path: JSON Lines (a call a line) or a YAML list of calls; a call is
            ``{"name": ..., "arguments": {...}}``. A trajectory's turns are taken too.

    Raises:
        CallerError: Naming file and line of what is no call.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CallerError(
            f"{path} cannot be read: {error}.", remedy="name a script of calls"
        ) from error
    if path.suffix in (".yaml", ".yml"):
        return _from_yaml(path, text)
    return _from_lines(path, text)


def _from_lines(path: Path, text: str) -> Sequence[Action]:
    calls: list[Action] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except ValueError as error:
            raise _no_call(f"{path}:{number}", str(error)) from error
        if isinstance(item, dict) and "kind" in item:
            calls.extend([item["action"]] if item["kind"] == "turn" else [])
        else:
            calls.append(_checked(item, f"{path}:{number}"))
    return calls


def _from_yaml(path: Path, text: str) -> Sequence[Action]:
    try:
        items = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _no_call(str(path), str(error)) from error
    if not isinstance(items, list):
        raise _no_call(str(path), "expected a list")
    return [_checked(item, f"{path}: item {n}") for n, item in enumerate(items, 1)]


def _checked(item: Any, where: str) -> Action:
    if isinstance(item, Mapping) and {"name", "function"} & set(item):
        return item
    raise _no_call(where, "a call has a name and arguments")


def _no_call(where: str, why: str) -> CallerError:
    return CallerError(
        f"{where}: this is no tool call: {why}.",
        remedy='write {"name": "bash", "arguments": {"command": "ls"}}',
    )


def _instance(env: gym.Env[Any, Any]) -> Instance:
    instance: Instance = env.get_wrapper_attr("instance")
    return instance


def _gold(env: gym.Env[Any, Any], _seed: int) -> Policy:
    return scripted(scripts.gold(_instance(env)))


def _null(_env: gym.Env[Any, Any], _seed: int) -> Policy:
    return Scripted(())


def _random(env: gym.Env[Any, Any], seed: int) -> Policy:
    return Sampled(env.action_space, seed)


def _cheat(name: str) -> Maker:
    def make(env: gym.Env[Any, Any], _seed: int) -> Policy:
        instance = _instance(env)
        known = {script.name: script for script in scripts.cheats(instance)}
        if name and name not in known:
            raise CallerError(
                f"Task {instance.task.name} has no cheat {name!r}.",
                remedy=f"choose one of {', '.join(known) or 'none at all'}",
            )
        if not known:
            raise CallerError(
                f"Task {instance.task.name} has no cheats.",
                remedy="choose another policy",
            )
        boldest = max(known.values(), key=lambda script: bool(script.expect_tamper))
        return scripted(known[name] if name else boldest)

    return make


def _script(path: str) -> Maker:
    calls = calls_from(Path(path))

    def make(_env: gym.Env[Any, Any], _seed: int) -> Policy:
        return Scripted(calls)

    return make


_PLAIN: Mapping[str, Maker] = {"gold": _gold, "null": _null, "random": _random}
_WITH_ARGUMENT: Mapping[str, Callable[[str], Maker]] = {
    "cheat": _cheat,
    "script": _script,
}


def named(name: str) -> PolicySpec:
    """Return a policy by name.

    Args:
        name: ``gold``, ``null``, ``random``, ``cheat`` (the first of a
            task's that shall be flagged, else its first),
            ``cheat:NAME`` or ``script:FILE``.

    Raises:
        CallerError: If there is no such policy, or its file is no script.
    """
    head, _, argument = name.partition(":")
    if name in _PLAIN:
        return PolicySpec(name, _PLAIN[name])
    if head in _WITH_ARGUMENT and (argument or head == "cheat"):
        return PolicySpec(name, _WITH_ARGUMENT[head](argument))
    raise CallerError(
        f"There is no policy {name!r}.",
        remedy="choose gold, null, random, cheat[:NAME], script:FILE or openai",
    )
