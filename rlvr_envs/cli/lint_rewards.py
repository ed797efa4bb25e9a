"""`rlvr lint-rewards`: do the path rules of a taskset keep the design rules?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym

from rlvr_envs.cli.shell import Shell
from rlvr_envs.cli.targets import env_maker
from rlvr_envs.errors import WrongArgument
from rlvr_envs.manifest import manifest
from rlvr_envs.records import ToolCategory, ToolSpec
from rlvr_envs.rewards.books import BOOKS, book_named
from rlvr_envs.rewards.episode import Turn
from rlvr_envs.rewards.lint import TaskCase, lint
from rlvr_envs.rewards.path_rules import RuleBook
from rlvr_envs.tasks.scripts import gold, twins
from rlvr_envs.tasks.task import Script
from rlvr_envs.tasks.taskset import Taskset

_FOLDERS = "name a folder whose folders each hold a task.yaml"


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser(
        "lint-rewards", help="check declared reward rules by design rules"
    )
    parser.add_argument("taskset", metavar="TASKSET", help="a package or a folder")
    parser.add_argument(
        "--env",
        metavar="ID",
        help="environment whose tools and rules are meant (default: the one whose "
        "tasks are judged in the same way)",
    )
    parser.add_argument(
        "--book",
        choices=sorted(BOOKS),
        help="another rule book than the environment's own stack has",
    )
    parser.set_defaults(tasks=None, sandbox=None)


def run(args: argparse.Namespace) -> int:
    """Print which rule, or task, breaks which design rule; 1 if any does."""
    shell = Shell(as_json=args.json)
    tasks = Taskset(args.taskset)
    if not tasks.names:
        raise WrongArgument(
            f"The taskset {args.taskset} holds no task.", remedy=_FOLDERS
        )
    args.env = args.env or _env_of(tasks)
    env = env_maker(args)()
    specs: tuple[ToolSpec, ...] = env.get_wrapper_attr("tool_specs")
    categories = {spec.name: spec.category for spec in specs}
    book = _book(env, args, categories)
    env.close()
    cases = tuple(task_cases(tasks, categories))
    found = lint(book, cases)
    for item in found:
        shell.emit(item.to_json())
    counts = {
        "book": book.name,
        "rules": len(book.rules),
        "tasks": len(cases),
        "findings": len(found),
    }
    shell.emit(counts)
    if found:
        rows = (item.to_json() for item in found)
        columns = ("subject", "breaks", "detail")
        cells = ([row[name] for name in columns] for row in rows)
        shell.table("Design rules broken", columns, cells)
    shell.text(
        "Book {book}. Rules: {rules}. Tasks: {tasks}. Findings: {findings}.".format(
            **counts
        )
    )
    return int(bool(found))


def task_cases(
    tasks: Taskset, categories: Mapping[str, ToolCategory]
) -> Iterator[TaskCase]:
    """Yield every task's first instance, with gold and its honest twins.

    Raises:
        TaskError: If a task folder breaks the format.
    """
    for name in tasks.names:
        instance = tasks.instance(name, 0)
        scripts = (gold(instance), *twins(instance))
        yield TaskCase(
            name=name,
            checks=len(instance.task.verification.checks),
            scripts=tuple(_path(script, categories) for script in scripts),
        )


def _env_of(tasks: Taskset) -> str:
    """Return the environment of which a task is judged as the first of these is."""
    mode = tasks.get(tasks.names[0]).verification.mode
    known = manifest()
    return next(
        f"{known.namespace}/{entry.id}"
        for entry in known.envs
        if mode in _modes(Taskset(entry.tasks))
    )


def _modes(tasks: Taskset) -> Iterator[str]:
    return (tasks.get(name).verification.mode for name in tasks.names)


def _path(script: Script, categories: Mapping[str, ToolCategory]) -> tuple[Turn, ...]:
    other = ToolCategory.OBSERVE
    return tuple(
        Turn(call, category=categories.get(call.name, other)) for call in script.calls
    )


def _book(
    env: gym.Env[Any, Any],
    args: argparse.Namespace,
    categories: Mapping[str, ToolCategory],
) -> RuleBook:
    """Return the book asked for, or the stack's, the modality's, the generic one."""
    if args.book is None and env.has_wrapper_attr("rule_book"):
        own: RuleBook = env.get_wrapper_attr("rule_book")
        return own
    modality = args.env.rpartition("/")[2].partition("-")[0].lower()
    name = args.book or (modality if modality in BOOKS else "generic")
    return book_named(name, categories.values())
