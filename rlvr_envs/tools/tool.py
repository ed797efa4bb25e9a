"""A tool: what the agent is told of it, and the function behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rlvr_envs.records import JsonObject, ToolResult, ToolSpec

SessionT = TypeVar("SessionT")


def no_complaint(_arguments: JsonObject) -> str:
    """Accept everything that the schema accepts."""
    return ""


def parameters(required: tuple[str, ...] = (), **properties: Any) -> JsonObject:
    """Return the schema of a tool's arguments: these, by name, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class Tool(Generic[SessionT]):
    """One row of a modality's tool table.

    Attributes:
        run: Called with the session and arguments that satisfy the schema and
            `check`. What the agent did wrong comes back as a `ToolResult`; only a
            broken world raises.
        check: What a schema cannot say; returns a complaint, or an empty string.
    """

    spec: ToolSpec
    run: Callable[[SessionT, JsonObject], ToolResult]
    check: Callable[[JsonObject], str] = no_complaint
