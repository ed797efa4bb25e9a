"""From an action, in any of the forms that models write, to a tool call."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from rlvr_envs.records import ErrorKind, ToolCall, ToolResult

MAX_ACTION_CHARS = 8 << 20
MAX_DEPTH = 64
MAX_VALUES = 20_000
"""In one action, nested ones counted; no tool takes as many."""

MAX_INT_BITS = 4096
EXPECTED = '{"name": "<tool>", "arguments": {...}}'
_SHOWN_CHARS = 80
_CALL_KEYS = frozenset({"name", "arguments"})
_MOST_PLAIN = 16
_WRAPPER_KEYS = frozenset({"id", "type", "function", "index"})


class _Malformed(Exception):
    """A call that cannot be read; the message is for the agent."""


def parse_call(action: object) -> ToolCall | ToolResult:
    """Read an action.

    Args:
        action: ``{"name": ..., "arguments": {...}}`` as a JSON string or a mapping;
            or an OpenAI-style tool call, ``{"id": ..., "type": "function",
            "function": {...}}``, either way. Arguments may be a JSON string again;
            absent, null or empty ones mean none.

    Returns:
        The call, holding plain data of its own; or a ``malformed_call`` result
        whose text says what is wrong and shows the expected form.
    """
    plain = _plainest(action)
    if plain is not None:
        return plain
    try:
        return _to_call(_unwrap(_read(action)))
    except _Malformed as error:
        text = f"Malformed tool call: {error} Expected {EXPECTED}."
        return ToolResult(text, ok=False, error_kind=ErrorKind.MALFORMED_CALL)


def _plainest(action: object) -> ToolCall | None:
    """Read a mapping of a name and texts at once; None for all else."""
    if type(action) is not dict or action.keys() != _CALL_KEYS:
        return None
    name, arguments = action["name"], action["arguments"]
    if type(name) is not str or not name or type(arguments) is not dict:
        return None
    if len(arguments) > _MOST_PLAIN or not all(
        type(key) is str and type(value) is str for key, value in arguments.items()
    ):
        return None
    return ToolCall(name, dict(arguments))


def shown(value: object) -> str:
    """Return a short ASCII picture of what somebody sent."""
    text = ascii(value[:_SHOWN_CHARS] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _read(action: object) -> dict[str, Any]:
    if isinstance(action, str):
        value = _parse_json(action, "The action")
    elif isinstance(action, Mapping):
        value = _copy(action)
    else:
        raise _Malformed(
            f"An action is a JSON string or a mapping, not {type(action).__name__}."
        )
    return _need_object(value, "The action")


def _parse_json(text: str, what: str) -> Any:
    if len(text) > MAX_ACTION_CHARS:
        raise _Malformed(
            f"{what} has {len(text)} characters, {MAX_ACTION_CHARS} are the most."
        )
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except RecursionError:
        raise _Malformed(f"{what} is nested too deeply.") from None
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}"
        raise _Malformed(
            f"{what} is not JSON ({error.msg} at {at}): {shown(text)}."
        ) from None
    except ValueError as error:
        raise _Malformed(f"{what} is not JSON ({shown(str(error))}).") from None
    return _copy(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Malformed(f"The key {shown(twice)} occurs twice in one object.")
    return found


def _no_constant(name: str) -> NoReturn:
    raise _Malformed(f"{name} is not JSON.")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Malformed(f"The number {shown(text)} is out of range.")
    return value


def _copy(value: object) -> Any:
    """Copy JSON data, so that nobody else's later change reaches it."""
    return _plain(value, 0, iter(range(MAX_VALUES)))


def _plain(value: object, depth: int, room: Iterator[int]) -> Any:
    if depth > MAX_DEPTH:
        raise _Malformed(f"It is nested more than {MAX_DEPTH} levels deep.")
    if next(room, None) is None:
        raise _Malformed(f"It holds more than {MAX_VALUES} values.")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return _short(value)
    if isinstance(value, float):
        return _finite(repr(float(value)))
    if isinstance(value, Mapping):
        return {_key(key): _plain(part, depth + 1, room) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, depth + 1, room) for part in value]
    raise _Malformed(f"A value of type {type(value).__name__} is not JSON.")


def _short(value: int) -> int:
    """Refuse integers that Python would not print."""
    if value.bit_length() > MAX_INT_BITS:
        raise _Malformed(f"An integer of {value.bit_length()} bits is out of range.")
    return value


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise _Malformed(f"The key {shown(key)} is not a string.")
    return key


def _need_object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Malformed(f"{what} is not an object, but {shown(value)}.")
    return value


def _unwrap(call: dict[str, Any]) -> dict[str, Any]:
    if "function" not in call:
        return call
    _refuse_others(call, _WRAPPER_KEYS)
    if call.get("type", "function") != "function":
        raise _Malformed(f"The type is {shown(call['type'])}, not 'function'.")
    return _need_object(call["function"], "The function")


def _to_call(call: dict[str, Any]) -> ToolCall:
    _refuse_others(call, _CALL_KEYS)
    name = call.get("name")
    if not isinstance(name, str) or not name:
        raise _Malformed(f"The name is no non-empty string, but {shown(name)}.")
    arguments = call.get("arguments")
    if isinstance(arguments, str) and arguments.strip():
        arguments = _parse_json(arguments, "The arguments string")
    if arguments is None or arguments == "" or isinstance(arguments, str):
        arguments = {}
    return ToolCall(name, _need_object(arguments, "The value of 'arguments'"))


def _refuse_others(call: dict[str, Any], allowed: frozenset[str]) -> None:
    others = sorted(shown(key) for key in call if key not in allowed)
    if others:
        raise _Malformed(f"Unexpected keys: {', '.join(others[:5])}.")
