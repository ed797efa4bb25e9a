"""A numbered instance of a task: what its generator makes, and its digest.

An instance is a function of task, generator version and number. Hidden inputs
have a stream of their own, which the verifier's manifest seeds too.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from rlvr_envs import seeding
from rlvr_envs.errors import TaskError, WrongArgument
from rlvr_envs.records import digest_of
from rlvr_envs.tasks.task import FileSpec, Instance, Recipe, Task
from rlvr_envs.tasks.worlds import recipe_flaw

SOURCES = ("task.yaml", "instruction.md", "generator.py")
"""What an instance is made from, beside the verifier's manifest."""

_BRACES = re.compile(r"\{\{|\}\}|\{([a-z_][a-z0-9_]*)\}|[{}]")
_KINDS = ("file", "link", "dir")


def instantiate(task: Task, number: int) -> Instance:
    """Make one instance of a task.

    Args:
        task: As its folder declares it.
        number: At least 0; the same number is the same instance everywhere.

    Raises:
        TaskError: If the generator fails or returns what is no recipe.
        ValueError: If the number is negative.
    """
    if number < 0:
        raise WrongArgument(
            f"An instance number is at least 0, not {number}.",
            remedy="leave it out, or give one",
        )
    recipe = _generate(task, number)
    return Instance(
        task=task,
        number=number,
        instruction=_instruction(task, recipe.values),
        recipe=recipe,
        digest=_digest(task, number, recipe),
    )


def hidden_json(recipe: Recipe) -> bytes:
    """Return the content of ``/verifier/hidden.json``: canonical JSON."""
    return _canonical(recipe.hidden)


def _generate(task: Task, number: int) -> Recipe:
    file = task.folder / "generator.py"
    namespace: dict[str, Any] = {"__name__": f"generator of {task.name}"}
    code = _guarded(file, lambda: compile(file.read_bytes(), str(file), "exec"))
    _guarded(file, lambda: exec(code, namespace))  # noqa: S102 (a task is our code)
    rng = seeding.generator("instance", task.name, task.version, number)
    recipe = _guarded(file, lambda: namespace["generate"](rng, number))
    if not isinstance(recipe, Recipe):
        raise TaskError("generate() returned no Recipe.", file=file)
    if "hidden" in namespace:
        secret = seeding.generator(
            "hidden", task.name, task.version, number, _manifest_digest(task)
        )
        more = _guarded(file, lambda: namespace["hidden"](secret, recipe))
        recipe = replace(recipe, hidden={**recipe.hidden, **more})
    _check_recipe(file, recipe)
    if flaw := recipe_flaw(task.world, recipe.service):
        raise TaskError(
            f"{flaw}.",
            file=file,
            remedy="leave it out of the recipe's service, or change the task's world",
        )
    return recipe


def _guarded(file: Path, act: Callable[[], Any]) -> Any:
    """Run a part of a generator; its exceptions name its file and line."""
    try:
        return act()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(file)]
        line = lines[-1] if lines else getattr(error, "lineno", 0)
        message = f"The generator failed: {type(error).__name__}: {error}."
        raise TaskError(message, file=file, line=line or 0) from error


def _check_recipe(file: Path, recipe: Recipe) -> None:
    for spec in recipe.files:
        problem = _problem(spec)
        if problem:
            raise TaskError(f"File {spec.path!r} {problem}.", file=file)
    for name in ("values", "hidden", "service"):
        try:
            _canonical(getattr(recipe, name))
        except (TypeError, ValueError) as error:
            raise TaskError(f"{name} is no plain JSON: {error}.", file=file) from None


def _problem(spec: FileSpec) -> str:
    pure = PurePosixPath(spec.path)
    if not pure.is_absolute() or ".." in pure.parts or str(pure) != spec.path:
        return "has no plain absolute path"
    if spec.kind not in _KINDS:
        return f"has the kind {spec.kind!r}; known are {', '.join(_KINDS)}"
    if spec.kind == "dir" and spec.data:
        return "is a folder with data"
    return ""


def _instruction(task: Task, values: Mapping[str, Any]) -> str:
    file = task.folder / "instruction.md"
    return "".join(
        _fill(line, values, file=file, number=number)
        for number, line in enumerate(_lines(file), start=1)
    )


def _lines(file: Path) -> list[str]:
    try:
        return file.read_bytes().decode().splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise TaskError(f"The file is not UTF-8 ({error.reason}).", file=file) from None


def _fill(line: str, values: Mapping[str, Any], *, file: Path, number: int) -> str:
    def piece(match: re.Match[str]) -> str:
        found, name = match.group(0), match.group(1)
        if name is None and len(found) == 2:
            return found[0]
        if name is None or name not in values:
            raise TaskError(
                f"The placeholder {found!r} has no value.",
                file=file,
                line=number,
                remedy="Let generate() return it in values; double a literal brace.",
            )
        return str(values[name])

    return _BRACES.sub(piece, line)


def _manifest_digest(task: Task) -> str:
    rows = sorted(task.verification.manifest.items())
    return digest_of([part for row in rows for part in row])


def _digest(task: Task, number: int, recipe: Recipe) -> str:
    sources = [(task.folder / name).read_bytes() for name in SOURCES]
    head = [task.name, str(task.version), str(number), _manifest_digest(task)]
    return digest_of([*head, *sources, *_content(recipe)])


def _content(recipe: Recipe) -> list[str | bytes]:
    """Return the recipe as parts, so that a changed random stream shows too."""
    parts: list[str | bytes] = []
    for spec in recipe.files:
        fixed = [spec.path, spec.kind, spec.mode, spec.user, spec.mtime_s]
        parts += [_canonical(fixed), spec.data]
    parts.append(_canonical([list(command) for command in recipe.setup]))
    parts.append(_canonical(recipe.refs))
    parts += [_canonical(recipe.values), _canonical(recipe.hidden)]
    parts += [recipe.database, _canonical(recipe.service)]
    return parts


def _canonical(value: Any) -> bytes:
    text = json.dumps(
        value,
        sort_keys=True,
        allow_nan=False,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return text.encode()
