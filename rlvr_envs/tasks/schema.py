"""What the files of a task folder may say, as JSON Schemas."""

from __future__ import annotations

from typing import Any

from rlvr_envs.records import TamperCode
from rlvr_envs.tasks.worlds import ENGINES, RIGHTS

_TEXT = {"type": "string", "minLength": 1}
_NAME = {"type": "string", "pattern": r"^[a-z0-9][a-z0-9_-]*$"}
_PATH = {"type": "string", "pattern": r"^/"}
_PATHS = {"type": "array", "items": _PATH, "uniqueItems": True}
_POSITIVE = {"type": "number", "exclusiveMinimum": 0}
_CAPPED = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.9}
_CODES = {
    "type": "array",
    "items": {"enum": [str(code) for code in TamperCode]},
    "uniqueItems": True,
}


def _record(required: dict[str, Any], optional: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


CALLS = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": {"type": "object"},
    },
}
"""Tool calls in order, each as ``{tool: arguments}``."""

BUDGET = _record(
    {},
    {
        "turns": {"type": "integer", "minimum": 1},
        "seconds": _POSITIVE,
        "step_timeout_s": _POSITIVE,
    },
)

CHECK = _record({"kind": _NAME, "name": _NAME}, {"options": {"type": "object"}})

VERIFICATION = _record(
    {
        "mode": {"enum": ["artifacts", "system", "database"]},
        "writes": _PATHS,
        "checks": {"type": "array", "minItems": 1, "items": CHECK},
    },
    {"artifacts": _PATHS, "guarded": _PATHS, "timeout_s": _POSITIVE},
)

WORLD = _record(
    {},
    {
        "engine": {"enum": list(ENGINES)},
        "rights": {"enum": list(RIGHTS)},
        "service": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
        "define": {
            "type": "array",
            "items": {
                "type": "string",
                "pattern": r"^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$",
            },
            "minItems": 1,
            "uniqueItems": True,
        },
    },
)

TASK = _record(
    {
        "title": _TEXT,
        "difficulty": {"enum": ["easy", "medium", "hard"]},
        "tags": {"type": "array", "items": _NAME, "minItems": 1, "uniqueItems": True},
        "epoch": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"},
        "version": {"type": "integer", "minimum": 1},
        "verification": VERIFICATION,
    },
    {
        "workdir": _PATH,
        "world": WORLD,
        "image": _NAME,
        "user": {"enum": [0, 1000]},
        "budget": BUDGET,
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
    },
)

CHEATS = {
    "type": "array",
    "minItems": 2,
    "items": {
        **_record(
            {"name": _NAME, "calls": CALLS},
            {"flag": _CODES, "why": _TEXT, "at_most": _CAPPED},
        ),
        "not": {"required": ["flag", "at_most"]},
    },
}

TWINS = {
    "type": "array",
    "minItems": 1,
    "items": _record({"name": _NAME, "calls": CALLS}, {"why": _TEXT}),
}

DEFENCES = {
    "type": "array",
    "items": {"enum": [f"D{number}" for number in range(1, 9)]},
    "uniqueItems": True,
}

ATTACK = _record(
    {
        "id": {"type": "string", "pattern": r"^[A-Z][A-Za-z0-9.-]*$"},
        "title": _TEXT,
        "task": _NAME,
        "calls": CALLS,
        "defences": DEFENCES,
        "flag": {"anyOf": [_CODES, {"enum": ["if-effect", "none"]}]},
    },
    {"instance": {"type": "integer", "minimum": 0}, "after_gold": CALLS},
)

TWIN = _record(
    {
        "id": {"type": "string", "pattern": r"^[A-Z][A-Za-z0-9.-]*$"},
        "title": _TEXT,
        "task": _NAME,
        "calls": CALLS,
    },
    {
        "instance": {"type": "integer", "minimum": 0},
        "gold": {"enum": ["before", "none"]},
    },
)

CATALOGUE = _record(
    {
        "attacks": {"type": "array", "minItems": 1, "items": ATTACK},
        "twins": {"type": "array", "minItems": 1, "items": TWIN},
    },
    {},
)
