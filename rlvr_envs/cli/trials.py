"""What the formats of `rlvr import` share: a folder, and scripts that are played."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym

from rlvr_envs.cli.shell import Shell
from rlvr_envs.cli.targets import DEFAULT_ENV
from rlvr_envs.errors import RlvrError, TaskError
from rlvr_envs.importing.trial import INFRA, NOT_BUILT, Trial, trial_of
from rlvr_envs.rollouts.replay import make
from rlvr_envs.tasks.scripts import cheats, gold, null
from rlvr_envs.tasks.task import Script

Env = gym.Env[Any, Any]
Job = tuple[str, Script]


@contextmanager
def folder(named: Path | None) -> Iterator[Path]:
    """Give the folder that was named, or one that goes away afterwards."""
    if named is not None:
        named.mkdir(parents=True, exist_ok=True)
        yield named
        return
    with TemporaryDirectory() as made:
        yield Path(made)


def environment(args: argparse.Namespace, out: Path) -> Env:
    """Make the environment of shells over a folder of tasks."""
    kwargs: dict[str, Any] = {"tasks": str(out)}
    if args.sandbox:
        kwargs["sandbox"] = args.sandbox
    if args.places != type(args.places)():
        kwargs["places"] = args.places
    return make(DEFAULT_ENV, kwargs)


def all_scripts(env: Env, names: Sequence[str]) -> Iterator[Job]:
    """Yield gold, null and cheats of each task."""
    taskset = env.get_wrapper_attr("taskset")
    for name in names:
        instance = taskset.instance(name, 0)
        for script in (gold(instance), null(), *cheats(instance)):
            yield name, script


def tried(env: Env, shell: Shell, jobs: Sequence[Job]) -> Iterator[Trial]:
    """Play scripts, each on a fresh instance of its task; nothing is raised."""
    with shell.progress(len(jobs), "trials") as advance:
        for name, script in jobs:
            yield _trial(env, name, script)
            advance(name)


def _trial(env: Env, name: str, script: Script) -> Trial:
    began = time.monotonic()
    try:
        env.reset(seed=0, options={"task": name})
    except RlvrError as error:
        kind = NOT_BUILT if isinstance(error, TaskError) else INFRA
        seconds = time.monotonic() - began
        return Trial(name, script.name, kind, reason=str(error), seconds=seconds)
    try:
        outcome = _play(env, script)
    except RlvrError as error:
        seconds = time.monotonic() - began
        return Trial(name, script.name, INFRA, reason=str(error), seconds=seconds)
    seconds = time.monotonic() - began
    return trial_of(name, script.name, outcome, seconds=seconds)


def _play(env: Env, script: Script) -> Mapping[str, Any]:
    info: Mapping[str, Any] = {}
    for call in script.calls:
        _, _, terminated, truncated, info = env.step(call.to_json())
        if terminated or truncated:
            break
    outcome: Mapping[str, Any] = info["outcome"]
    return outcome
