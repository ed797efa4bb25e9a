"""Finding a tool, checking its arguments, running it."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rlvr_envs.envs.terminal.tools import TOOLS
from rlvr_envs.errors import SandboxError
from rlvr_envs.records import (
    ErrorKind,
    JsonObject,
    ToolCall,
    ToolCategory,
    ToolResult,
    ToolSpec,
)
from rlvr_envs.tools.dispatch import Dispatcher, usage
from rlvr_envs.tools.tool import Tool

ADD = ToolSpec(
    "add",
    "Add.",
    {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "names": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["n"],
        "additionalProperties": False,
    },
    ToolCategory.MUTATE,
)
LOOK = ToolSpec("look", "Look.", {"type": "object"}, ToolCategory.OBSERVE)


def _add(session: list[int], arguments: JsonObject) -> ToolResult:
    session.append(arguments["n"])
    return ToolResult(str(sum(session)))


def _look(session: list[int], arguments: JsonObject) -> ToolResult:
    raise SandboxError("gone")


def _no_thirteen(arguments: JsonObject) -> str:
    return "13 is not welcome." if arguments["n"] == 13 else ""


def make() -> Dispatcher[list[int]]:
    return Dispatcher([Tool(ADD, _add, _no_thirteen), Tool(LOOK, _look)])


def call(n: Any, **more: Any) -> dict[str, Any]:
    return {"name": "add", "arguments": {"n": n, **more}}


def test_a_valid_call_runs() -> None:
    session: list[int] = [1]

    assert make().dispatch(session, call(2)) == (
        ToolCall("add", {"n": 2}),
        ToolResult("3"),
    )


@pytest.mark.parametrize(
    ("action", "kind", "reason"),
    [
        ("{", ErrorKind.MALFORMED_CALL, "Malformed tool call"),
        ({"name": "ad"}, ErrorKind.UNKNOWN_TOOL, "Did you mean 'add'?"),
        ({"name": "rm -rf"}, ErrorKind.UNKNOWN_TOOL, "The tools are: add, look."),
        ({"name": "x" * 10_000}, ErrorKind.UNKNOWN_TOOL, "There is no tool"),
        ({"name": "\ud800"}, ErrorKind.UNKNOWN_TOOL, "There is no tool"),
        ({"name": "add"}, ErrorKind.INVALID_ARGUMENTS, "'n' is a required property"),
        (call("2"), ErrorKind.INVALID_ARGUMENTS, "n: '2' is not of type 'integer'"),
        (call(True), ErrorKind.INVALID_ARGUMENTS, "n: True is not of type 'integer'"),
        (call(2, m=3), ErrorKind.INVALID_ARGUMENTS, "'m' was unexpected"),
        (call(13), ErrorKind.INVALID_ARGUMENTS, "13 is not welcome"),
        (call("x" * 100_000), ErrorKind.INVALID_ARGUMENTS, "is not of type"),
        (
            call(1, names=["a", 5]),
            ErrorKind.INVALID_ARGUMENTS,
            "names[1]: 5 is not of type 'string'",
        ),
        (
            call(1, names=["a", "b\ud800"]),
            ErrorKind.INVALID_ARGUMENTS,
            "names[1], character 1 is a lone surrogate",
        ),
        (
            {"name": "look", "arguments": {"of": {"a\ud800": 1}}},
            ErrorKind.INVALID_ARGUMENTS,
            "a name in of, character 1 is a lone surrogate",
        ),
        (
            {"name": "look", "arguments": {"\ud800": "\ud800"}},
            ErrorKind.INVALID_ARGUMENTS,
            "a name in the arguments, character 0 is a lone surrogate",
        ),
    ],
)
def test_a_call_that_is_refused_runs_nothing_and_says_why(
    action: object, kind: ErrorKind, reason: str
) -> None:
    session: list[int] = []
    dispatcher = make()

    _, result = dispatcher.dispatch(session, action)

    assert session == []
    assert result.error_kind is kind
    assert result.ok is False
    assert reason in result.text
    assert len(result.text) < 1500
    assert result.text.encode()
    assert dispatcher.dispatch(session, action)[1] == result


def test_the_arguments_that_are_taken_are_named() -> None:
    _, result = make().dispatch([], {"name": "add"})

    assert "add takes: n (integer, required), names (array)." in result.text
    assert usage(LOOK) == "look takes: no arguments."


def test_a_broken_world_is_not_the_agents_fault() -> None:
    with pytest.raises(SandboxError):
        make().dispatch([], {"name": "look"})


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="Two tools are named 'look'"):
        Dispatcher([Tool(LOOK, _look), Tool(LOOK, _look)])


def test_a_schema_that_is_none_is_refused() -> None:
    odd = ToolSpec("odd", "", {"type": "objekt"}, ToolCategory.OBSERVE)

    with pytest.raises(ValueError, match="The schema of 'odd'"):
        Dispatcher([Tool(odd, _look)])


@pytest.mark.parametrize("spec", [tool.spec for tool in TOOLS], ids=lambda s: s.name)
def test_every_tool_is_described_for_a_model(spec: ToolSpec) -> None:
    exported = spec.openai()

    assert exported["type"] == "function"
    assert exported["function"]["name"] == spec.name
    assert len(spec.description) > 40
    Draft202012Validator.check_schema(exported["function"]["parameters"])
    assert spec.parameters["additionalProperties"] is False
    for part in spec.parameters["properties"].values():
        assert part["description"]
        if part["type"] == "string":
            assert "maxLength" in part or "pattern" in part
        if part["type"] == "array":
            assert "maxItems" in part


def test_the_terminal_has_its_seven_tools() -> None:
    assert {tool.spec.name: str(tool.spec.category) for tool in TOOLS} == {
        "bash": "mutate",
        "exec": "mutate",
        "read_file": "observe",
        "write_file": "mutate",
        "screen": "observe",
        "send_keys": "mutate",
        "submit": "terminal",
    }
