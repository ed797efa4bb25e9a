"""Recorded exchanges with other companies: what matches, what does not, what is noted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.envs.sql_rest.services import messages
from rlvr_envs.envs.sql_rest.services.recorded import (
    Recorded,
    RpcError,
    Unrecorded,
    rpc_row,
)
from rlvr_envs.relational import Outbound

URL = "https://api.example/v1/things"
RPC = "/things.v1.Things/Get"


def test_an_exchange_is_answered_as_it_was() -> None:
    row = {
        "method": "POST",
        "url": URL,
        "request": {"b": 1, "a": "é"},
        "status": 201,
        "headers": {"X-Id": "7"},
        "answer": {"ok": True},
    }
    recorded = Recorded([row])

    reply = recorded.http("POST", URL, '{"a":"\\u00e9","b":1}', turn=3)

    assert (reply.status, reply.headers, reply.body) == (
        201,
        {"x-id": "7"},
        '{"ok":true}',
    )
    assert recorded.calls == [Outbound(3, "POST", URL, "201")]


@pytest.mark.parametrize(
    "asked",
    [
        ("GET", URL, "x"),
        ("PUT", URL, ""),
        ("GET", URL + "/", ""),
        ("GET", URL + "?a=1", ""),
        ("", RPC, ""),
    ],
)
def test_what_differs_at_all_was_not_recorded(asked: tuple[str, str, str]) -> None:
    recorded = Recorded([{"method": "GET", "url": URL}, rpc_row(RPC, b"")])

    with pytest.raises(Unrecorded):
        recorded.http(*asked, turn=1)

    assert recorded.calls == [Outbound(1, asked[0], asked[1], "")]


def test_rows_of_one_request_answer_in_order_and_the_last_stays() -> None:
    rows: list[dict[str, Any]] = [
        {"method": "GET", "url": URL, "status": status} for status in (503, 429, 200)
    ]
    recorded = Recorded(rows)

    statuses = [recorded.http("GET", URL, turn=1).status for _ in range(4)]

    assert statuses == [503, 429, 200, 200]


def test_a_unary_call_is_matched_by_its_bytes() -> None:
    recorded = Recorded([rpc_row(RPC, b"\x00\xff", b"\x01")])

    assert recorded.unary(RPC, b"\x00\xff", turn=1) == b"\x01"
    with pytest.raises(Unrecorded):
        recorded.unary(RPC, b"\x00", turn=2)
    assert [call.status for call in recorded.calls] == ["OK", ""]


def test_a_call_that_failed_fails_again_with_its_code() -> None:
    recorded = Recorded([rpc_row(RPC, b"", code="NOT_FOUND", details="no thing")])

    with pytest.raises(RpcError, match="NOT_FOUND: no thing"):
        recorded.unary(RPC, b"", turn=1)

    assert recorded.calls == [Outbound(1, "", RPC, "NOT_FOUND")]


@pytest.mark.parametrize(
    "row",
    [
        {"method": "GET"},
        {"method": "GET", "url": URL, "often": 2},
        {"rpc": "things.v1.Things/Get"},
        {"rpc": RPC, "code": "SAD"},
        {"rpc": RPC, "request": "?"},
        {"rpc": RPC, "status": 200},
    ],
)
def test_a_wrong_row_is_named(row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^An exchange "):
        Recorded([row])


MESSAGES: dict[str, tuple[dict[int, messages.Field], str]] = {
    "nothing": ({}, ""),
    "what is zero is left out": ({1: 0, 2: ""}, ""),
    "a varint": ({1: 150}, "089601"),
    "a text": ({2: "testing"}, "120774657374696e67"),
    "a negative number has ten bytes": ({1: -2}, "08feffffffffffffffff01"),
    "a number above fifteen": ({16: 1}, "800101"),
    "in order of numbers": ({2: "é", 1: 1}, "08011202c3a9"),
}
"""Bytes as the library of protocol buffers writes them."""


@pytest.mark.parametrize(("fields", "told"), MESSAGES.values(), ids=MESSAGES)
def test_messages_are_those_of_protocol_buffers(
    fields: dict[int, messages.Field], told: str
) -> None:
    assert messages.encode(fields).hex() == told


@given(
    st.dictionaries(
        st.integers(1, (1 << 29) - 1),
        st.integers(-(1 << 63), (1 << 63) - 1) | st.text(),
    )
)
def test_a_message_comes_back(fields: dict[int, messages.Field]) -> None:
    kept = {number: value for number, value in fields.items() if value}

    assert messages.decode(messages.encode(fields)) == kept


def test_fields_of_other_types_are_passed_over() -> None:
    fixed = "0d00000000" + "1100000000000000ff" + "1801"

    assert messages.decode(bytes.fromhex(fixed)) == {3: 1}


@pytest.mark.parametrize("broken", ["08", "0a05aa", "0b", "0d00", "08" + "ff" * 11])
def test_what_is_cut_is_no_message(broken: str) -> None:
    with pytest.raises(ValueError, match=r"The message is|has no end"):
        messages.decode(bytes.fromhex(broken))


@given(st.binary(max_size=30))
def test_bytes_are_a_message_or_are_refused(data: bytes) -> None:
    try:
        messages.decode(data)
    except ValueError as error:
        assert str(error)  # noqa: PT017 (either is right)
