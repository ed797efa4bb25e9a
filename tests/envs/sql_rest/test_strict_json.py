from __future__ import annotations

import pytest

from rlvr_envs.envs.sql_rest.services.strict_json import loads


def test_plain_json_is_read() -> None:
    assert loads('{"cents": 1000, "reason": "\\u00e9", "rate": 1.5}') == {
        "cents": 1000,
        "reason": "é",
        "rate": 1.5,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        '{"\\udfff": 1}',
        '{"a": "\ud800"}',
        "[" * 100_000,
        "9" * 5000,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(text)
