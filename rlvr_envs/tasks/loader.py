"""A task folder becomes a `Task`; whatever breaks the format is named by line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rlvr_envs.errors import TaskError
from rlvr_envs.records import JsonObject, Verification, VerifierSpec
from rlvr_envs.tasks.fixtures import missing
from rlvr_envs.tasks.marked import Marked, read_yaml
from rlvr_envs.tasks.schema import TASK
from rlvr_envs.tasks.task import Task
from rlvr_envs.tasks.worlds import flaw_of

REQUIRED = ("task.yaml", "instruction.md", "generator.py", "gold.yaml")
"""Files that every task folder holds."""

OPTIONAL = ("cheats.yaml", "twins.yaml", "verifier")
"""What else may stand in one; bundled tasks have all."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


OptionsCheck = Callable[[str, JsonObject], None]
"""Raises `ValueError` for a kind of check that is unknown, or options that it has not."""


def accept(_kind: str, _options: JsonObject) -> None:
    """Take any check for what it says; the judge will find out."""


def load_task(folder: Path, *, validate: OptionsCheck = accept) -> Task:
    """Read a task folder; its scripts and its generator are read when asked for.

    Args:
        folder: Its last part is the task's name.
        validate: What holds each check's options against its kind; this room knows
            no verifier.

    Raises:
        TaskError: Naming file and line of the first thing that is wrong.
    """
    _check_folder(folder)
    marked = read_yaml(folder / "task.yaml")
    marked.check(TASK)
    data: Mapping[str, Any] = marked.data
    for index, check in enumerate(data["verification"]["checks"]):
        _check_options(marked, index, check, validate)
    _check_world(marked)
    return Task(
        name=folder.name,
        folder=folder,
        title=data["title"],
        difficulty=data["difficulty"],
        tags=tuple(data["tags"]),
        image=data.get("image", "base"),
        user=data.get("user", 1000),
        workdir=data.get("workdir", "/"),
        epoch_s=_epoch(marked),
        version=data["version"],
        budget=dict(data.get("budget", {})),
        env=dict(data.get("env", {})),
        verification=_verification(marked, folder),
        world=dict(data.get("world", {})),
    )


def files_beneath(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a part of a task folder, sorted by relative POSIX name.

    Bytecode caches are no part of a task and are passed over.

    Raises:
        TaskError: If there is a link, a dotfile or an empty folder: a wheel would
            lose it, so a generator has to make such things.
    """
    if not any(folder.iterdir()):
        raise TaskError("A wheel would lose this empty folder.", file=folder)
    for path in sorted(folder.iterdir()):
        if path.name == "__pycache__":
            continue
        if path.name.startswith(".") or path.is_symlink():
            raise TaskError(
                "A wheel would lose dotfiles and links.",
                file=path,
                remedy="Let generator.py make it.",
            )
        if path.is_dir():
            for name, inner in files_beneath(path):
                yield f"{path.name}/{name}", inner
        else:
            yield path.name, path


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise TaskError("The task folder is missing.", file=folder)
    if not _NAME.fullmatch(folder.name):
        raise TaskError(
            "A task is named in lower case, digits and dashes.", file=folder
        )
    for name in REQUIRED:
        if not (folder / name).is_file():
            raise TaskError(f"The folder lacks {name}.", file=folder / name)
    for path in sorted(folder.iterdir()):
        if path.name not in (*REQUIRED, *OPTIONAL, "__pycache__"):
            raise TaskError(
                f"The format has no file {path.name!r}.",
                file=path,
                remedy="Put what the judge needs beneath verifier/.",
            )


def _check_options(
    marked: Marked, index: int, check: JsonObject, validate: OptionsCheck
) -> None:
    try:
        validate(check["kind"], check.get("options", {}))
    except ValueError as error:
        where = ("verification", "checks", index, "options")
        raise marked.error(where, f"Check {check['name']!r}: {error}") from None


def _check_world(marked: Marked) -> None:
    checks = marked.data["verification"]["checks"]
    kinds = [check["kind"] for check in checks]
    flaw = flaw_of(marked.data.get("world", {}), kinds)
    if flaw is not None:
        raise marked.error(flaw.where, flaw.message, remedy=flaw.remedy)


def _epoch(marked: Marked) -> int:
    text = marked.data["epoch"]
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError as error:
        raise marked.error(("epoch",), f"epoch is no date: {error}.") from None


def _verification(marked: Marked, folder: Path) -> Verification:
    data = marked.data["verification"]
    names = [check["name"] for check in data["checks"]]
    for index, name in enumerate(names):
        if name in names[:index]:
            at = ("verification", "checks", index, "name")
            raise marked.error(at, f"Two checks are named {name!r}.")
    if data["mode"] == "artifacts" and not data.get("artifacts"):
        where = ("verification", "artifacts")
        raise marked.error(where, "Mode artifacts needs at least one artifact.")
    manifest = _manifest(folder / "verifier")
    for index, check in enumerate(data["checks"]):
        if name := missing(check, manifest):
            raise marked.error(
                ("verification", "checks", index, "options"),
                f"Check {check['name']!r} names {name}, which verifier/ does not hold.",
                remedy="put the file there, or correct its name",
            )
    return Verification(
        mode=data["mode"],
        artifacts=tuple(data.get("artifacts", ())),
        writes=tuple(data["writes"]),
        checks=tuple(
            VerifierSpec(row["kind"], row["name"], row.get("options", {}))
            for row in data["checks"]
        ),
        guarded=tuple(data.get("guarded", ())),
        timeout_s=float(data.get("timeout_s", 60.0)),
        manifest=manifest,
    )


def _manifest(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        return {}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in files_beneath(folder)
    }
