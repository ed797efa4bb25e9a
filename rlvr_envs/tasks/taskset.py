"""A taskset: task folders side by side, in a package or anywhere on disk."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from rlvr_envs.errors import WrongArgument
from rlvr_envs.tasks.instances import instantiate
from rlvr_envs.tasks.loader import OptionsCheck, accept, load_task
from rlvr_envs.tasks.task import Instance, Task

_PLACES = (
    "name a folder of task folders, or a package such as rlvr_envs.envs.terminal.tasks"
)

KEPT_INSTANCES = 64
"""Instances that a taskset remembers; the oldest goes first."""


class Taskset:
    """Tasks by name; a task is loaded when it is first asked for.

    Args:
        source: A package that holds task folders, such as
            ``"rlvr_envs.envs.terminal.tasks"``, or a folder.
        validate: What holds each check's options against its kind, such as
            ``rlvr_envs.verifiers.validate_options``.

    Raises:
        ValueError: If there is no such package or folder.
    """

    def __init__(self, source: str | Path, *, validate: OptionsCheck = accept) -> None:
        self.source = str(source)
        self.folder = _folder(source)
        self._validate = validate
        self._tasks: dict[str, Task] = {}
        self._instances: dict[tuple[str, int], Instance] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all tasks, sorted; no task is loaded for it."""
        return tuple(
            sorted(path.parent.name for path in self.folder.glob("*/task.yaml"))
        )

    def get(self, name: str) -> Task:
        """Return a task.

        Raises:
            TaskError: If its folder breaks the format.
            ValueError: If there is no such task; says which were near.
        """
        if name not in self._tasks:
            self._require(name)
            self._tasks[name] = load_task(self.folder / name, validate=self._validate)
        return self._tasks[name]

    def instance(self, name: str, number: int) -> Instance:
        """Return an instance of a task; remembered for the next time.

        Raises:
            TaskError: If the task's folder breaks the format.
            ValueError: If there is no such task, or the number is negative.
        """
        key = (name, number)
        if key not in self._instances:
            if len(self._instances) >= KEPT_INSTANCES:
                self._instances.pop(next(iter(self._instances)))
            self._instances[key] = instantiate(self.get(name), number)
        return self._instances[key]

    def _require(self, name: str) -> None:
        if name in self.names:
            return
        near = difflib.get_close_matches(name, self.names, n=3)
        hint = (
            f"Did you mean {', '.join(near)}?" if near else f"Known: {self._known()}."
        )
        raise WrongArgument(
            f"There is no task {name!r} in {self.source}. {hint}",
            remedy="see `rlvr list --tasks PLACE`",
        )

    def _known(self) -> str:
        return ", ".join(self.names) or "none at all"


def _folder(source: str | Path) -> Path:
    """Return the folder of a taskset that is named by package or by path."""
    text = str(source)
    if isinstance(source, Path) or "/" in text or Path(text).is_dir():
        if not Path(text).is_dir():
            raise WrongArgument(
                f"The taskset folder {text} is missing.", remedy=_PLACES
            )
        return Path(text).absolute()
    try:
        spec = importlib.util.find_spec(text)
    except (ImportError, ValueError):
        spec = None
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if Path(place).is_dir():
            return Path(place)
    raise WrongArgument(
        f"There is neither a package nor a folder {text!r}.", remedy=_PLACES
    )
