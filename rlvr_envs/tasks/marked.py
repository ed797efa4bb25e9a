"""YAML whose every value knows the line that it stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from rlvr_envs.errors import TaskError

Where = tuple[str | int, ...]


class _Plain(yaml.SafeLoader):
    """Safe YAML without timestamps, so that a date stays the text it was."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML reads a class attribute)
        first: [row for row in rows if row[0] != "tag:yaml.org,2002:timestamp"]
        for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True, slots=True)
class Marked:
    """Plain data from a YAML file.

    Attributes:
        lines: From the path of a value (keys and indices) to its line, from 1.
    """

    file: Path
    data: Any
    lines: Mapping[Where, int] = field(default_factory=dict)

    def error(
        self, where: Sequence[str | int], message: str, *, remedy: str = ""
    ) -> TaskError:
        """Return the error for the value at a path, or for its nearest parent."""
        path = tuple(where)
        while path and path not in self.lines:
            path = path[:-1]
        line = self.lines.get(path, 1)
        if not remedy:
            return TaskError(message, file=self.file, line=line)
        return TaskError(message, file=self.file, line=line, remedy=remedy)

    def at(self, where: Where) -> Any:
        """Return the part that stands at a path."""
        part = self.data
        for step in where:
            part = part[step]
        return part

    def check(self, schema: Mapping[str, Any], *, at: Where = ()) -> None:
        """Hold the data (or the part at a path) against a JSON Schema.

        Raises:
            TaskError: For the mismatch that stands first in the file. What is
                missing comes last: a key that is spelled wrong says more.
        """
        found = [
            (error.validator == "required", self._mismatch(error, at))
            for error in _validator(schema).iter_errors(self.at(at))
        ]
        if found:
            raise min(found, key=lambda pair: (pair[0], pair[1].line))[1]

    def _mismatch(self, error: jsonschema.ValidationError, at: Where) -> TaskError:
        where, text = _place(error)
        return self.error((*at, *where), text)


def read_yaml(file: Path) -> Marked:
    """Read one YAML document.

    Raises:
        TaskError: If the file is missing or is not UTF-8 YAML, or repeats a key.
    """
    try:
        text = file.read_bytes().decode()
    except FileNotFoundError:
        raise TaskError("The file is missing.", file=file) from None
    except UnicodeDecodeError as error:
        raise TaskError(f"The file is not UTF-8 ({error.reason}).", file=file) from None
    try:
        return _read(file, text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = error.problem or "cannot be read"
        raise TaskError(
            f"The YAML is broken: {problem}.", file=file, line=line
        ) from None
    except yaml.YAMLError as error:
        raise TaskError(f"The YAML is broken: {error}.", file=file) from None


def _read(file: Path, text: str) -> Marked:
    loader = _Plain(text)
    try:
        node = loader.get_single_node()
        lines: dict[Where, int] = {}
        data = None if node is None else _build(loader, node, (), lines, file)
    finally:
        loader.dispose()
    return Marked(file=file, data=data, lines=lines)


def _build(
    loader: _Plain, node: yaml.Node, where: Where, lines: dict[Where, int], file: Path
) -> Any:
    lines.setdefault(where, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [
            _build(loader, item, (*where, index), lines, file)
            for index, item in enumerate(node.value)
        ]
    if isinstance(node, yaml.MappingNode):
        return _build_mapping(loader, node, where, lines, file)
    return loader.construct_object(node)


def _build_mapping(
    loader: _Plain,
    node: yaml.MappingNode,
    where: Where,
    lines: dict[Where, int],
    file: Path,
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = loader.construct_object(key_node)
        if not isinstance(key, str):
            raise TaskError(f"A key must be text, not {key!r}.", file=file, line=line)
        if key in result:
            raise TaskError(f"The key {key!r} stands twice.", file=file, line=line)
        lines[(*where, key)] = line
        result[key] = _build(loader, value_node, (*where, key), lines, file)
    return result


def _validator(schema: Mapping[str, Any]) -> Any:
    return jsonschema.Draft202012Validator(schema)


def _place(error: jsonschema.ValidationError) -> tuple[Where, str]:
    """Return where a mismatch stands, and what it is in our words."""
    path: Where = tuple(error.absolute_path)
    schema: Any = error.schema
    wanted: Any = error.validator_value
    given: Any = error.instance
    if error.validator == "additionalProperties":
        known = sorted(schema.get("properties", {}))
        unknown = sorted(set(given) - set(known))
        text = f"The key {unknown[0]!r} is unknown; known are {', '.join(known)}."
        return (*path, unknown[0]), text
    if error.validator == "required":
        missing = sorted(set(wanted) - set(given))
        return path, f"{_name(path)} lacks the key {missing[0]!r}."
    return path, f"{_name(path)} is wrong: {error.message}."


def _name(path: Where) -> str:
    return ".".join(str(step) for step in path) or "The document"
