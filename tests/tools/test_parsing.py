"""Reading actions: every form that models write, and every way to get it wrong."""

from __future__ import annotations

import json
from collections import UserDict
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.records import ErrorKind, ToolCall, ToolResult
from rlvr_envs.tools.parsing import MAX_ACTION_CHARS, parse_call

CALL = {"name": "bash", "arguments": {"command": "ls"}}
OPENAI = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "bash", "arguments": '{"command": "ls"}'},
}


@pytest.mark.parametrize(
    "action",
    [
        CALL,
        json.dumps(CALL),
        f"  {json.dumps(CALL)}\n",
        np.str_(json.dumps(CALL)),
        OPENAI,
        json.dumps(OPENAI),
        {"function": CALL},
        {"type": "function", "index": 0, "function": CALL},
        {"name": "bash", "arguments": '{"command": "ls"}'},
        UserDict(CALL),
        MappingProxyType(CALL),
    ],
)
def test_every_form_is_the_same_call(action: object) -> None:
    assert parse_call(action) == ToolCall("bash", {"command": "ls"})


@pytest.mark.parametrize("arguments", [{}, None, "", "  ", "{}"])
def test_no_arguments_can_be_said_in_several_ways(arguments: object) -> None:
    assert parse_call({"name": "screen", "arguments": arguments}) == ToolCall("screen")
    assert parse_call({"name": "screen"}) == ToolCall("screen")


MALFORMED: list[tuple[object, str]] = [
    ("", "is not JSON"),
    ("ls -la", "is not JSON"),
    ('{"name": "bash"', "is not JSON"),
    ("{'name': 'bash'}", "is not JSON"),
    ('"bash"', "is not an object"),
    ("null", "is not an object"),
    ("[]", "is not an object"),
    ("5", "is not an object"),
    ("NaN", "NaN is not JSON"),
    ('{"name": "x", "arguments": {"a": Infinity}}', "Infinity is not JSON"),
    ('{"name": "x", "arguments": {"a": 1e999}}', "out of range"),
    ('{"name": "x", "arguments": {"a": ' + "9" * 5000 + "}}", "is not JSON"),
    ('{"name": "a", "name": "b"}', "occurs twice"),
    ('{"name": "a", "arguments": {"b": {"c": 1, "c": 2}}}', "occurs twice"),
    ({"name": "x", "arguments": {"a": 10**5000}}, "out of range"),
    ({"name": -(10**5000), "arguments": {}}, "out of range"),
    ({"name": "x", "arguments": {"a": [[0] * 999] * 999}}, "values"),
    (json.dumps({str(number): 1 for number in range(99_999)}), "values"),
    ("[" * 100_000, "nested too deeply"),
    ('{"a":' * 100 + "1" + "}" * 100, "levels deep"),
    ('{"name": "a"}' + " " * MAX_ACTION_CHARS, "are the most"),
    (b'{"name": "bash"}', "not bytes"),
    (None, "not NoneType"),
    (5, "not int"),
    (["bash"], "not list"),
    (np.zeros(3), "not ndarray"),
    ({}, "The name is no"),
    ({"name": ""}, "The name is no"),
    ({"name": 5}, "The name is no"),
    ({"name": ["bash"]}, "The name is no"),
    ({"tool": "bash"}, "Unexpected keys: 'tool'"),
    ({"name": "bash", "command": "ls"}, "Unexpected keys: 'command'"),
    ({"name": "bash", "arguments": ["ls"]}, "'arguments' is not an object"),
    ({"name": "bash", "arguments": "ls"}, "The arguments string is not JSON"),
    ({"name": "bash", "arguments": "[]"}, "'arguments' is not an object"),
    ({"name": "bash", "arguments": {1: 2}}, "The key 1 is not a string"),
    ({"name": "bash", "arguments": {"a": b"x"}}, "type bytes is not JSON"),
    ({"name": "bash", "arguments": {"a": float("nan")}}, "out of range"),
    ({"name": "bash", "arguments": {"a": {1, 2}}}, "type set is not JSON"),
    ({"name": "bash", "arguments": {"a": np.int64(1)}}, "type int64 is not JSON"),
    ({"type": "tool", "function": CALL}, "not 'function'"),
    ({"function": "bash"}, "The function is not an object"),
    ({"function": CALL, "name": "bash"}, "Unexpected keys: 'name'"),
    ({"name": "bash\ud800", "arguments": {1: 1}}, "The key 1"),
    ('{"\\ud800": 1}', "Unexpected keys"),
]


@pytest.mark.parametrize(("action", "reason"), MALFORMED)
def test_a_malformed_call_is_told_what_is_expected(action: object, reason: str) -> None:
    result = parse_call(action)

    assert isinstance(result, ToolResult)
    assert result.error_kind is ErrorKind.MALFORMED_CALL
    assert result.ok is False
    assert reason in result.text
    assert 'Expected {"name": "<tool>", "arguments": {...}}.' in result.text
    assert len(result.text) < 800
    assert result.text.encode()
    assert parse_call(action) == result


def test_a_cyclic_mapping_is_too_deep() -> None:
    loop: dict[str, Any] = {"name": "bash"}
    loop["arguments"] = loop

    result = parse_call(loop)

    assert isinstance(result, ToolResult)
    assert "levels deep" in result.text


def test_a_later_change_of_the_mapping_is_not_seen() -> None:
    arguments: dict[str, Any] = {"argv": ["ls"]}
    call = parse_call({"name": "exec", "arguments": arguments})
    arguments["argv"].append("-l")

    assert call == ToolCall("exec", {"argv": ["ls"]})


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.text() | JSON_VALUES | st.binary())
def test_no_action_raises(action: object) -> None:
    result = parse_call(action)

    assert isinstance(result, ToolCall | ToolResult)


@given(
    st.text(min_size=1),
    st.dictionaries(st.text(), st.integers() | st.text() | st.booleans()),
)
def test_a_call_survives_json(name: str, arguments: dict[str, Any]) -> None:
    call = ToolCall(name, arguments)

    assert parse_call(json.dumps(call.to_json())) == call
    assert parse_call(call.to_json()) == call
