from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import math
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from rlvr_envs.sandbox.inside import plain

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
KEYS = st.integers() | st.text() | st.tuples(st.integers(), st.text())
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner)
        | st.sets(KEYS)
        | st.frozensets(KEYS)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    back = plain.decode(json.loads(plain.dumps(plain.encode(value))))

    assert back == value
    assert type(back) is type(value)


class Point(NamedTuple):
    x: int
    y: int


class Color(enum.IntEnum):
    RED = 3


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (Point(1, 2), (1, 2)),
        (Color.RED, 3),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.deque([1, 2]), [1, 2]),
        ({1: 2}.keys(), [1]),
        (range(3), [0, 1, 2]),
        ((i * i for i in range(3)), [0, 1, 4]),
        (decimal.Decimal("1.50"), "1.50"),
        (fractions.Fraction(1, 3), "1/3"),
        (datetime.date(2024, 1, 15), "2024-01-15"),
        (math.inf, math.inf),
        (bytearray(b"x"), b"x"),
    ],
)
def test_values_of_the_library_become_plain(value: Any, back: Any) -> None:
    assert plain.decode(plain.encode(value)) == back


def test_an_integer_of_any_size_crosses() -> None:
    assert plain.decode(json.loads(plain.dumps(plain.encode(10**5000)))) == 10**5000


class Always:
    __hash__ = object.__hash__

    @override
    def __eq__(self, other: object) -> bool:
        return True


class IntSpoof(int):
    __hash__ = int.__hash__

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, int)


class SmallSpoof(int):
    __hash__ = int.__hash__

    @override
    def __eq__(self, other: object) -> bool:
        return other in range(10)


class DictSpoof(dict[str, int]):
    @override
    def __eq__(self, other: object) -> bool:
        return True


class NumberSpoof:
    __hash__ = object.__hash__

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, float)


@pytest.mark.parametrize(
    "value", [Always(), IntSpoof(7), SmallSpoof(7), DictSpoof(), NumberSpoof()]
)
def test_what_poses_as_anything_is_a_spoof(value: Any) -> None:
    for item in (value, [value], {"a": (value,)}):
        with pytest.raises(plain.NotPlain) as caught:
            plain.encode(item)

        assert caught.value.spoofs


class Money:
    """Compares as it should."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    __hash__ = object.__hash__

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents


@dataclasses.dataclass
class Record:
    a: int


@pytest.mark.parametrize(
    "value", [Money(3), Record(3), object(), len, Money, math.nan, 1j, [math.nan]]
)
def test_an_honest_object_is_refused_without_an_accusation(value: Any) -> None:
    with pytest.raises(plain.NotPlain) as caught:
        plain.encode(value)

    assert not caught.value.spoofs


def test_depth_and_number_are_capped() -> None:
    deep: Any = []
    for _level in range(plain.MAX_DEPTH + 2):
        deep = [deep]

    for value in (deep, iter(int, 1), (0 for _ in range(plain.MAX_ITEMS + 1))):
        with pytest.raises(plain.NotPlain):
            plain.encode(value)


@pytest.mark.parametrize(
    "data",
    [
        {"class": "A"},
        {"int": "0x1", "list": []},
        {"int": 5},
        {"float": "nan"},
        {"bytes": "%%"},
        {"dict": [[1]]},
        {"dict": [[[1], 2]]},
        {"set": [[1]]},
        {},
    ],
)
def test_forged_data_are_refused(data: Any) -> None:
    with pytest.raises(plain.NotPlain):
        plain.decode(data)


@pytest.mark.parametrize(
    "raw",
    [b"NaN", b'{"a":1,"a":2}', b"1e999", b"[" * 99_999, b"\xff", b" " * (9 << 20)],
)
def test_what_is_no_strict_json_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        plain.loads(raw)
