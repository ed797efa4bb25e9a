from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.trajectories.encoding import encode, plain

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    assert json.loads(encode(value)) == value


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_a_line_holds_no_line_end_and_no_byte_beyond_ascii(text: str) -> None:
    line = encode({"observation": text})

    assert b"\n" not in line
    assert line.isascii()


def test_the_order_of_keys_does_not_matter() -> None:
    assert encode({"a": 1, "b": 2}) == encode({"b": 2, "a": 1})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.int64(7), 7),
        (np.float64(0.5), 0.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (b"\xff", "\xff"),
        ({1: "one"}, {"1": "one"}),
        ((1, 2), [1, 2]),
        (object(), "<object>"),
    ],
)
def test_what_json_cannot_say_is_replaced_by_a_word(value: Any, said: Any) -> None:
    assert json.loads(encode({"value": value})) == {"value": said}


def test_an_integer_too_long_to_print_is_told_by_its_size() -> None:
    assert json.loads(encode({"offset": 10**5000})) == {"offset": "<int of 16610 bits>"}


def test_an_endless_value_ends() -> None:
    endless: list[Any] = []
    endless.append(endless)

    assert b"<too deep>" in encode(endless)
    assert plain(1, depth=100) == "<too deep>"
