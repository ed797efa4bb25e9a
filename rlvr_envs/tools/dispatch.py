"""From an action to a result: find the tool, check the arguments, run it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError

from rlvr_envs.records import ErrorKind, JsonObject, ToolCall, ToolResult, ToolSpec
from rlvr_envs.tools.parsing import parse_call, shown
from rlvr_envs.tools.quick import Accepts, acceptor
from rlvr_envs.tools.tool import Tool

SessionT = TypeVar("SessionT")

_MOST_COMPLAINTS = 3
_MOST_CHARS = 240


class Dispatcher(Generic[SessionT]):
    """A modality's tools, ready to be called.

    Args:
        tools: No two of one name.

    Raises:
        ValueError: If a name occurs twice or a schema is not valid.
    """

    def __init__(self, tools: Iterable[Tool[SessionT]]) -> None:
        self._tools: dict[str, Tool[SessionT]] = {}
        self._validators: dict[str, Draft202012Validator] = {}
        self._accepts: dict[str, Accepts] = {}
        for tool in tools:
            if tool.spec.name in self._tools:
                raise ValueError(f"Two tools are named {tool.spec.name!r}.")
            self._tools[tool.spec.name] = tool
            self._validators[tool.spec.name] = _validator(tool.spec)
            self._accepts[tool.spec.name] = acceptor(tool.spec.parameters)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the agent sees them, in the order they were given."""
        return tuple(tool.spec for tool in self._tools.values())

    def dispatch(
        self, session: SessionT, action: object
    ) -> tuple[ToolCall | None, ToolResult]:
        """Run one action.

        Returns:
            The call, or None if it could not be read; and what came of it. A
            result that says no is a function of the action alone.

        Raises:
            WorldError: If the world broke. No mistake of the agent raises.
        """
        call = parse_call(action)
        if isinstance(call, ToolResult):
            return None, call
        tool = self._tools.get(call.name)
        if tool is None:
            return call, self._unknown(call.name)
        complaint = self._complaint(tool, call.arguments)
        if complaint:
            return call, _refused(complaint, ErrorKind.INVALID_ARGUMENTS)
        return call, tool.run(session, call.arguments)

    def _unknown(self, name: str) -> ToolResult:
        close = difflib.get_close_matches(name[:100], self._tools, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        names = ", ".join(self._tools)
        text = f"There is no tool {shown(name)}.{hint} The tools are: {names}."
        return _refused(text, ErrorKind.UNKNOWN_TOOL)

    def _complaint(self, tool: Tool[SessionT], arguments: JsonObject) -> str:
        name = tool.spec.name
        validator = self._validators[name]
        if not (self._accepts[name](arguments) or validator.is_valid(arguments)):
            errors = sorted(validator.iter_errors(arguments), key=_order)
            parts = [_describe(error) for error in errors[:_MOST_COMPLAINTS]]
            told = "; ".join(parts)
            return f"Invalid arguments for {name}: {told}. {usage(tool.spec)}"
        complaint = _unencodable(arguments, "") or tool.check(arguments)
        if complaint:
            return f"Invalid arguments for {name}: {complaint}"
        return ""


def usage(spec: ToolSpec) -> str:
    """Return one line that names a tool's arguments."""
    required = spec.parameters.get("required", ())
    parts = [
        f"{name} ({part.get('type', 'any')}{', required' if name in required else ''})"
        for name, part in spec.parameters.get("properties", {}).items()
    ]
    return f"{spec.name} takes: {', '.join(parts) or 'no arguments'}."


def _validator(spec: ToolSpec) -> Draft202012Validator:
    try:
        Draft202012Validator.check_schema(spec.parameters)
    except SchemaError as error:
        raise ValueError(f"The schema of {spec.name!r}: {error.message}") from error
    return Draft202012Validator(spec.parameters)


def _order(error: ValidationError) -> tuple[str, str]:
    return error.json_path, str(error.validator)


def _describe(error: ValidationError) -> str:
    where = error.json_path.removeprefix("$.").removeprefix("$")
    message = ascii(error.message)[1:-1]
    if len(message) > _MOST_CHARS:
        message = f"{message[: _MOST_CHARS // 2]} ... {message[-_MOST_CHARS // 2 :]}"
    return f"{shown(where)[1:-1]}: {message}" if where else message


def _unencodable(value: Any, where: str) -> str:
    """Complain of the first string that no UTF-8 text can hold."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            place = f"{shown(where)[1:-1]}, character {error.start}"
            return f"{place} is a lone surrogate, which is no text."
        return ""
    if isinstance(value, Mapping):
        named = [(f"a name in {where or 'the arguments'}", key) for key in value]
        items = [(f"{where}.{key}".lstrip("."), part) for key, part in value.items()]
        items = named + items
    elif isinstance(value, list):
        items = [(f"{where}[{at}]", part) for at, part in enumerate(value)]
    else:
        return ""
    return next((told for at, part in items if (told := _unencodable(part, at))), "")


def _refused(text: str, kind: ErrorKind) -> ToolResult:
    return ToolResult(text, ok=False, error_kind=kind)
