"""`rlvr list`: the tasks of an environment."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from rlvr_envs.cli.shell import Shell
from rlvr_envs.cli.targets import DEFAULT_ENV, env_maker, taskset
from rlvr_envs.manifest import manifest


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser("list", help="list the tasks of an environment")
    parser.add_argument("--env", metavar="ID", help="only this one (default: all)")
    parser.add_argument("--tasks", metavar="PLACE", help="another taskset")
    parser.add_argument("--tag", metavar="TAG", help="only tasks with this tag")
    parser.set_defaults(sandbox=None)


def run(args: argparse.Namespace) -> int:
    """Print one line a task."""
    shell = Shell(as_json=args.json)
    rows = [row for row in _rows(args) if not args.tag or args.tag in row["tags"]]
    for row in rows:
        shell.emit(row)
    columns = ("env", "task", "difficulty", "tags", "title")
    shell.table("Tasks", columns, ([row[name] for name in columns] for row in rows))
    return 0


def _rows(args: argparse.Namespace) -> Iterator[Mapping[str, Any]]:
    for env_id in _env_ids(args):
        args.env = env_id
        env = env_maker(args)()
        known = taskset(env)
        for name in known.names:
            task = known.get(name)
            yield {
                "env": env_id.rpartition(":")[2],
                "task": name,
                "difficulty": task.difficulty,
                "tags": list(task.tags),
                "title": task.title,
            }
        env.close()


def _env_ids(args: argparse.Namespace) -> list[str]:
    if args.env or args.tasks:
        return [args.env or DEFAULT_ENV]
    known = manifest()
    return [f"{known.namespace}/{entry.id}" for entry in known.envs]
