"""What a file's content shall be: the options that several verifiers share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from rlvr_envs.verifiers import strict
from rlvr_envs.verifiers.verifier import Context

LIMIT_BYTES = 1 << 20

HIDDEN = {
    "type": "object",
    "properties": {"hidden": {"type": "string", "minLength": 1}},
    "required": ["hidden"],
    "additionalProperties": False,
}
"""``{hidden: dotted.key}``."""

PATH = {"type": "string", "pattern": "^/"}


def _all(apply: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(apply(line) for line in text.split("\n"))


NORMALISE: Mapping[str, Callable[[str], str]] = {
    "strip": str.strip,
    "strip_lines": _all(str.strip),
    "crlf": lambda text: text.replace("\r\n", "\n"),
    "collapse_spaces": _all(lambda line: re.sub(r"[ \t]+", " ", line)),
    "casefold": str.casefold,
    "drop_empty_lines": lambda text: "\n".join(filter(str.strip, text.split("\n"))),
    "sort_lines": lambda text: "\n".join(sorted(text.split("\n"))),
}
"""Applied in the order that the options name them, to both sides."""

EXPECTATIONS: dict[str, Any] = {
    "equals": {"anyOf": [{"type": "string"}, HIDDEN]},
    "regex": {"anyOf": [{"type": "string", "format": "regex"}, HIDDEN]},
    "json": {},
    "sha256": {"anyOf": [{"type": "string", "pattern": "^[0-9a-f]{64}$"}, HIDDEN]},
    "lines": {"anyOf": [{"type": "array", "items": {"type": "string"}}, HIDDEN]},
    "normalise": {"type": "array", "items": {"enum": list(NORMALISE)}},
    "tolerance": {"type": "number", "minimum": 0},
    "max_bytes": {"type": "integer", "minimum": 1},
    "encoding": {"type": "string"},
}
"""Properties of a JSON Schema."""

EXPECTING = ("equals", "regex", "json", "sha256", "lines")
"""Options that say what is expected."""


def problem(data: bytes, options: Mapping[str, Any], context: Context) -> str:
    """Return how content differs from what is expected; empty if it does not."""
    for name in EXPECTING:
        if name in options:
            text = _CHECKS[name](data, context.value(options[name]), options)
            if text:
                return text
    return ""


def _text(data: bytes, options: Mapping[str, Any]) -> str | None:
    try:
        text = data.decode(options.get("encoding", "utf-8"))
    except UnicodeDecodeError:
        return None
    return _normalised(text, options)


def _normalised(text: str, options: Mapping[str, Any]) -> str:
    for name in options.get("normalise", ()):
        text = NORMALISE[name](text)
    return text


def _equals(data: bytes, wanted: Any, options: Mapping[str, Any]) -> str:
    text = _text(data, options)
    if text is None:
        return "it is not in its encoding"
    wanted = wanted if isinstance(wanted, str) else str(wanted)
    return "" if text == _normalised(wanted, options) else "its content differs"


def _regex(data: bytes, wanted: Any, options: Mapping[str, Any]) -> str:
    text = _text(data, options)
    if text is None:
        return "it is not in its encoding"
    found = re.fullmatch(str(wanted), text, re.MULTILINE)
    return "" if found else "its content does not match"


def _json(data: bytes, wanted: Any, options: Mapping[str, Any]) -> str:
    try:
        found = strict.loads(data)
    except ValueError as error:
        return f"it is no strict JSON ({error})"
    tolerance = float(options.get("tolerance", 0.0))
    return strict.difference(found, wanted, tolerance=tolerance)


def _sha256(data: bytes, wanted: Any, _options: Mapping[str, Any]) -> str:
    same = hashlib.sha256(data).hexdigest() == str(wanted)
    return "" if same else "its digest differs"


def _lines(data: bytes, wanted: Any, options: Mapping[str, Any]) -> str:
    return _equals(data, "\n".join(str(item) for item in wanted), _ended(options))


def _ended(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Let the last line end, or not: both are the same list of lines."""
    normalise = [*options.get("normalise", ()), "strip"]
    return {**options, "normalise": normalise}


_CHECKS: Mapping[str, Callable[[bytes, Any, Mapping[str, Any]], str]] = {
    "equals": _equals,
    "regex": _regex,
    "json": _json,
    "sha256": _sha256,
    "lines": _lines,
}
