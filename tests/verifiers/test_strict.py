from __future__ import annotations

from typing import Any

import pytest

from rlvr_envs.verifiers import strict


@pytest.mark.parametrize(
    "raw",
    [b'{"a":1,"a":2}', b"NaN", b"[Infinity]", b"1e999", b"\xff", b"[" * 100_000, b""],
)
def test_what_is_no_strict_json_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        strict.loads(raw)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (True, 1),
        (0, False),
        ("1", 1),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({}, {"a": None}),
        ([1, 2], [2, 1]),
        (None, 0),
        (1.1, 1.0),
        (10**400, 1.0),
        (-(10**400), 0.5),
    ],
)
def test_values_that_only_look_alike_differ(found: Any, wanted: Any) -> None:
    assert strict.difference(found, wanted, tolerance=0.05)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [(1.0, 1), (1.04, 1.0), ({"b": [1], "a": None}, {"a": None, "b": [1]})],
)
def test_equal_values_agree(found: Any, wanted: Any) -> None:
    assert strict.difference(found, wanted, tolerance=0.05) == ""
