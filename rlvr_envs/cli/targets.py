"""Which environment, which tasks and which policies a command is about."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlvr_envs.errors import CallerError
from rlvr_envs.rollouts.replay import make

DEFAULT_ENV = "rlvr/Terminal-v0"


def add_env_options(parser: argparse.ArgumentParser) -> None:
    """Add what names an environment."""
    parser.add_argument(
        "--env",
        default=DEFAULT_ENV,
        metavar="ID",
        help=f"environment id, or module:id (default {DEFAULT_ENV})",
    )
    parser.add_argument(
        "--tasks", metavar="PLACE", help="another taskset: a package or a folder"
    )
    parser.add_argument("--sandbox", metavar="NAME", help="another sandbox backend")
    parser.add_argument(
        "--database",
        metavar="DSN",
        help="a database cluster to use in place of our own",
    )
    parser.add_argument(
        "--database-folder", metavar="DIR", help="where our own keeps its data"
    )


def add_task_options(parser: argparse.ArgumentParser) -> None:
    """Add what names tasks and an instance."""
    parser.add_argument(
        "--task",
        action="append",
        metavar="NAME",
        help="a task, again for more, or all (default: the first)",
    )
    parser.add_argument(
        "--instance", type=natural, default=0, metavar="N", help="default 0"
    )


def natural(text: str) -> int:
    """Read a number of at least 0."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"a number from 0, not {text}")
    return number


def positive(text: str) -> int:
    """Read a number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"a number from 1, not {text}")
    return number


def env_kwargs(
    args: argparse.Namespace, *, record: Path | None = None
) -> Mapping[str, Any]:
    """Return the arguments of `gym.make` that the line names.

    Places are passed on only where they are not the default.
    """
    given = {
        "tasks": args.tasks,
        "sandbox": args.sandbox,
        "database": getattr(args, "database", None),
        "folder": getattr(args, "database_folder", None),
        "record": str(record) if record else None,
        "places": args.places if _moved(args.places) else None,
    }
    return {key: value for key, value in given.items() if value is not None}


def passed_on(args: argparse.Namespace) -> list[str]:
    """Return what of the line another process needs to build the same environment."""
    names = ("tasks", "sandbox", "database", "database_folder")
    given = ((name, getattr(args, name, None)) for name in names)
    return [
        word
        for name, value in given
        if value
        for word in (f"--{name.replace('_', '-')}", value)
    ]


def _moved(places: Any) -> bool:
    return bool(places != type(places)())


def env_maker(
    args: argparse.Namespace, *, record: Path | None = None
) -> Callable[[], gym.Env[Any, Any]]:
    """Return what builds the environment; nothing is started by it."""
    return partial(make, args.env, env_kwargs(args, record=record))


def taskset(env: gym.Env[Any, Any]) -> Any:
    """Return the tasks of an environment."""
    return env.get_wrapper_attr("taskset")


def task_names(env: gym.Env[Any, Any], wanted: Sequence[str] | None) -> Sequence[str]:
    """Return the tasks that the line names.

    Raises:
        CallerError: If there is none.
        ValueError: If one is not known; says which are near.
    """
    known = taskset(env)
    if not known.names:
        raise CallerError("This taskset is empty.", remedy="name another with --tasks")
    if not wanted:
        return tuple(known.names[:1])
    if "all" in wanted:
        return tuple(known.names)
    for name in wanted:
        known.get(name)
    return tuple(wanted)
