"""The scripted policies of a task: gold, null, its cheats and its honest twins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rlvr_envs.records import ToolCall
from rlvr_envs.tasks.marked import Marked, Where, read_yaml
from rlvr_envs.tasks.schema import CALLS, CHEATS, TWINS
from rlvr_envs.tasks.task import Instance, Recipe, Script

SUBMIT = ToolCall("submit")

_PLACEHOLDER = re.compile(r"(?<!\$)\{((?:hidden\.)?[a-z_][a-z0-9_]*)\}")


def null() -> Script:
    """Return the policy that does nothing but submit."""
    return Script("null", (SUBMIT,))


def gold(instance: Instance) -> Script:
    """Return the honest solution of an instance.

    Raises:
        TaskError: If ``gold.yaml`` breaks the format.
    """
    marked = read_yaml(instance.task.folder / "gold.yaml")
    marked.check(CALLS)
    return Script("gold", submitted(marked, (), _known(instance.recipe)))


def cheats(instance: Instance) -> tuple[Script, ...]:
    """Return the dishonest solutions of an instance; none where no file is.

    Raises:
        TaskError: If ``cheats.yaml`` breaks the format.
    """
    return _scripts(instance, "cheats.yaml", CHEATS)


def twins(instance: Instance) -> tuple[Script, ...]:
    """Return honest solutions that differ from gold; none where no file is.

    Raises:
        TaskError: If ``twins.yaml`` breaks the format.
    """
    return _scripts(instance, "twins.yaml", TWINS)


def calls_at(
    marked: Marked, where: Where, values: Mapping[str, Any]
) -> tuple[ToolCall, ...]:
    """Return the calls that stand at a path, with known placeholders filled in.

    A placeholder is ``{name}`` of one of the values; other braces are left alone.
    """
    return tuple(
        ToolCall(tool, _filled(arguments, values))
        for row in marked.at(where)
        for tool, arguments in row.items()
    )


def submitted(
    marked: Marked, where: Where, values: Mapping[str, Any]
) -> tuple[ToolCall, ...]:
    """Return the calls at a path.

    Raises:
        TaskError: If ``submit`` is not the last of them, and only the last.
    """
    calls = calls_at(marked, where, values)
    places = [index for index, call in enumerate(calls) if call.name == "submit"]
    if places != [len(calls) - 1]:
        raise marked.error(where, "A script ends in submit, and has only one.")
    return calls


def unique(marked: Marked, where: Where, key: str) -> None:
    """Hold that no two rows of a list share a name.

    Raises:
        TaskError: At the second of two.
    """
    seen: set[str] = set()
    for index, row in enumerate(marked.at(where)):
        if row[key] in seen:
            raise marked.error((*where, index, key), f"{row[key]!r} stands twice.")
        seen.add(row[key])


def _known(recipe: Recipe) -> dict[str, Any]:
    """Return what a script may name: public values, and ``hidden.<key>``.

    A script plays what an agent would find out; no agent is ever shown it.
    """
    hidden = {f"hidden.{key}": value for key, value in recipe.hidden.items()}
    return {**recipe.values, **hidden}


def _scripts(
    instance: Instance, name: str, schema: Mapping[str, Any]
) -> tuple[Script, ...]:
    file = instance.task.folder / name
    if not file.exists():
        return ()
    marked = read_yaml(file)
    marked.check(schema)
    unique(marked, (), "name")
    return tuple(
        Script(
            row["name"],
            submitted(marked, (index, "calls"), _known(instance.recipe)),
            tuple(row.get("flag", ())),
            at_most=float(row.get("at_most", 0.0)),
        )
        for index, row in enumerate(marked.data)
    )


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(
            lambda match: str(values.get(match.group(1), match.group(0))), value
        )
    if isinstance(value, Mapping):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    return value
