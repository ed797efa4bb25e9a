"""From a registry entry to a Gymnasium environment: build, then stack the wrappers.

It reaches upward by strings alone, so that importing the package stays light.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym

from rlvr_envs.errors import WrongArgument
from rlvr_envs.manifest import EnvEntry, StackLayer, manifest

_RECORDER = "RecordTrajectory"
_VECTOR = "rlvr_envs.envs.vector:GroupVectorEnv"
_CHECK = "rlvr_envs.envs.arguments:check_names"


def register_all() -> None:
    """Register every id of registry.yaml with Gymnasium; twice is once."""
    known = manifest()
    for entry in known.envs:
        full_id = f"{known.namespace}/{entry.id}"
        if full_id not in gym.registry:
            gym.register(
                id=full_id,
                entry_point="rlvr_envs.registration:make_env",
                vector_entry_point="rlvr_envs.registration:make_vector_env",
                kwargs={"env_id": entry.id},
            )


def load(entry_point: str) -> Any:
    """Return what ``module:name`` names."""
    module, _, name = entry_point.partition(":")
    return getattr(importlib.import_module(module), name)


def make_env(
    *,
    env_id: str,
    stack: str | None = None,
    layers: Mapping[str, Mapping[str, Any]] | None = None,
    record: str | None = None,
    **kwargs: Any,
) -> gym.Env[Any, Any]:
    """Build an environment and stack its wrappers; what `gym.make` calls.

    Args:
        env_id: As in registry.yaml, without the namespace.
        stack: Name of another wrapper stack, such as ``"bare"``.
        layers: Keyword arguments for single wrappers of the stack by class name,
            such as ``{"ClipObservation": {"limit_bytes": 4096}}``.
        record: Folder that trajectories are written to; short for the folder of
            the stack's `RecordTrajectory`.
        **kwargs: For the environment's own constructor.

    Raises:
        WrongArgument: If a name is not known, or a value cannot be used.
    """
    entry = manifest().env(env_id)
    rows = manifest().stack(stack or entry.stack)
    changes = _overrides(rows, layers, record)
    own = _arguments(entry, kwargs)
    env: gym.Env[Any, Any] = _checked(
        f"{manifest().namespace}/{entry.id}", entry.entry_point, own
    )(**own)
    for row in rows:
        given = {**row.kwargs, **changes.get(row.name, {})}
        env = _checked(row.name, row.entry_point, given)(env, **given)
    return env


def _checked(name: str, entry_point: str, given: Mapping[str, Any]) -> Any:
    """Return a class, its arguments having been held against what it takes."""
    factory = load(entry_point)
    load(_CHECK)(name, factory, given)
    return factory


def make_vector_env(
    *,
    num_envs: int = 1,
    env_id: str,
    tasks: str | Sequence[str] | None = None,
    slot_timeout_s: float | None = None,
    **kwargs: Any,
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Build the group vector environment; what `gym.make_vec` calls.

    Args:
        num_envs: Number of slots.
        env_id: As in registry.yaml, without the namespace.
        tasks: A list names one task for each slot; a string is the taskset, as
            for one environment.
        slot_timeout_s: Most wall time of one call in one slot.
        **kwargs: As for `make_env`, for each slot.
    """
    named = None if tasks is None or isinstance(tasks, str) else list(tasks)
    if isinstance(tasks, str):
        kwargs["tasks"] = tasks
    build = functools.partial(make_env, env_id=env_id, **kwargs)
    group: gym.vector.VectorEnv[Any, Any, Any] = load(_VECTOR)(
        build, num_envs=num_envs, tasks=named, slot_timeout_s=slot_timeout_s
    )
    return group


def _arguments(entry: EnvEntry, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    own = {"tasks": entry.tasks, "budget": entry.budget, **entry.kwargs, **kwargs}
    if isinstance(own.get("sandbox"), str):
        own["sandbox"] = manifest().sandbox(own["sandbox"])
    return own


def _overrides(
    rows: tuple[StackLayer, ...],
    layers: Mapping[str, Mapping[str, Any]] | None,
    record: str | None,
) -> dict[str, Mapping[str, Any]]:
    changes = dict(layers or {})
    if record is not None:
        changes[_RECORDER] = {**changes.get(_RECORDER, {}), "folder": record}
    unknown = set(changes) - {row.name for row in rows}
    if unknown:
        names = ", ".join(row.name for row in rows) or "none"
        raise WrongArgument(
            f"This stack has no layer {sorted(unknown)[0]!r}.",
            remedy=f"choose from {names}",
        )
    return changes
