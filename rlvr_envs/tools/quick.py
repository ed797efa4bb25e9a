"""Schemas of plain texts and whole numbers, checked without a validator's cost.

A validator takes longer over a handful of arguments than a shell over a command.
What this check accepts is valid; what it does not know, it leaves to the validator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlvr_envs.records import JsonObject

Accepts = Callable[[Any], bool]

_SAID = frozenset({"type", "description", "examples", "title"})
_OBJECT = frozenset({"type", "properties", "required", "additionalProperties"})


def acceptor(schema: JsonObject) -> Accepts:
    """Return a check that is true for some valid objects, and never for others.

    Args:
        schema: Of an object; a valid JSON Schema.
    """
    properties = schema.get("properties", {})
    closed = schema.get("additionalProperties") is False
    if not closed or schema.get("type") != "object" or set(schema) - _OBJECT:
        return _refuse
    known = {name: _value(part) for name, part in properties.items()}
    required = tuple(schema.get("required", ()))

    def accepts(value: Any) -> bool:
        if type(value) is not dict or any(name not in value for name in required):
            return False
        return all(known.get(name, _refuse)(part) for name, part in value.items())

    return accepts


def _refuse(_value: Any) -> bool:
    return False


def _value(schema: Any) -> Accepts:
    if not isinstance(schema, Mapping):
        return _refuse
    kind = schema.get("type")
    maker = _MAKERS.get(kind) if isinstance(kind, str) else None
    return maker(schema) if maker else _refuse


def _text(schema: Mapping[str, Any]) -> Accepts:
    if set(schema) - _SAID - {"minLength", "maxLength"}:
        return _refuse
    low, high = schema.get("minLength", 0), schema.get("maxLength", float("inf"))
    return lambda value: type(value) is str and low <= len(value) <= high


def _whole(schema: Mapping[str, Any]) -> Accepts:
    if set(schema) - _SAID - {"minimum", "maximum"}:
        return _refuse
    low = schema.get("minimum", float("-inf"))
    high = schema.get("maximum", float("inf"))
    return lambda value: type(value) is int and low <= value <= high


def _truth(schema: Mapping[str, Any]) -> Accepts:
    return _refuse if set(schema) - _SAID else lambda value: type(value) is bool


_MAKERS: Mapping[str, Callable[[Mapping[str, Any]], Accepts]] = {
    "string": _text,
    "integer": _whole,
    "boolean": _truth,
}
