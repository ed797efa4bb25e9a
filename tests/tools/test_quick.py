"""The quick check accepts only what a validator accepts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rlvr_envs.envs.terminal.tools import TOOLS
from rlvr_envs.tools.quick import acceptor

KINDS = (
    {"type": "string"},
    {"type": "string", "minLength": 1, "maxLength": 3, "description": "a text"},
    {"type": "string", "pattern": "^a"},
    {"type": "string", "enum": ["a", "b"]},
    {"type": "integer", "minimum": 1, "maximum": 9},
    {"type": "integer", "exclusiveMinimum": 1},
    {"type": "boolean"},
    {"type": ["string", "null"]},
    {"type": "array", "items": {"type": "string"}},
    {"const": 3},
    True,
)

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 12),
    st.floats(-2, 12),
    st.text("ab", max_size=5),
    st.lists(st.text("ab"), max_size=2),
)


@given(
    properties=st.dictionaries(st.sampled_from("xyz"), st.sampled_from(KINDS)),
    required=st.lists(st.sampled_from("xyz"), unique=True),
    closed=st.booleans(),
    value=st.dictionaries(st.sampled_from("xyzw"), VALUES),
)
def test_what_is_accepted_is_valid(
    properties: dict[str, Any], required: list[str], closed: bool, value: Any
) -> None:
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": not closed,
    }

    if acceptor(schema)(value):
        assert Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("bash", {"command": "true"}),
        ("read_file", {"path": "a", "offset": 2}),
        ("write_file", {"path": "a", "content": ""}),
    ],
)
def test_what_agents_call_all_the_time_needs_no_validator(
    name: str, arguments: dict[str, Any]
) -> None:
    spec = next(tool.spec for tool in TOOLS if tool.spec.name == name)

    assert acceptor(spec.parameters)(arguments)


@pytest.mark.parametrize("value", [{}, {"command": 3}, {"command": "x", "y": 1}, [], 3])
def test_what_is_not_plain_is_left_to_the_validator(value: Any) -> None:
    spec = next(tool.spec for tool in TOOLS if tool.spec.name == "bash")

    assert not acceptor(spec.parameters)(value)
