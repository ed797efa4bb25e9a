"""Strict JSON from untrusted bytes, and comparison without surprises."""

from __future__ import annotations

import json
import math
from typing import Any

LIMIT_BYTES = 4 << 20
NESTING = 200


def loads(raw: bytes) -> Any:
    """Read JSON: UTF-8, finite numbers, no key twice, size and depth capped.

    Raises:
        ValueError: If it is anything else.
    """
    if len(raw) > LIMIT_BYTES:
        raise ValueError(f"JSON of {len(raw)} bytes")
    try:
        data = json.loads(raw.decode(), object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    check_finite(data)
    return data


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key stands twice")
    return out


def check_finite(data: Any) -> None:
    """Refuse numbers such as NaN or 1e999, which the parser accepts.

    Raises:
        ValueError: If there is one.
    """
    stack = [data]
    while stack:
        item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise ValueError("a number is not finite")
        if isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item.values())


def difference(found: Any, wanted: Any, *, tolerance: float, at: str = "") -> str:
    """Return where two JSON values differ; empty if they agree.

    True is not 1; an integer equals a float of the same value; numbers may differ
    by the tolerance.
    """
    if isinstance(wanted, dict):
        return _objects(found, wanted, tolerance=tolerance, at=at)
    if isinstance(wanted, list):
        return _lists(found, wanted, tolerance=tolerance, at=at)
    here = at or "the value"
    numbers = _is_number(wanted) and _is_number(found)
    if numbers:
        return "" if _close(found, wanted, tolerance) else f"{here} differs"
    same = type(found) is type(wanted) and found == wanted
    return "" if same else f"{here} differs"


def _close(found: float, wanted: float, tolerance: float) -> bool:
    try:
        return abs(found - wanted) <= tolerance
    except OverflowError:  # an integer that no float can hold, against a float
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _objects(found: Any, wanted: dict[str, Any], *, tolerance: float, at: str) -> str:
    if not isinstance(found, dict):
        return f"{at or 'the value'} is no object"
    if odd := sorted(found.keys() ^ wanted.keys()):
        return f"{at}.{odd[0]} is {'extra' if odd[0] in found else 'missing'}"
    for key, value in wanted.items():
        at_key = f"{at}.{key}"
        if text := difference(found[key], value, tolerance=tolerance, at=at_key):
            return text
    return ""


def _lists(found: Any, wanted: list[Any], *, tolerance: float, at: str) -> str:
    if not isinstance(found, list):
        return f"{at or 'the value'} is no list"
    if len(found) != len(wanted):
        return f"{at or 'the list'} has {len(found)} items, not {len(wanted)}"
    for index, value in enumerate(wanted):
        at_item = f"{at}[{index}]"
        if text := difference(found[index], value, tolerance=tolerance, at=at_item):
            return text
    return ""
