"""JSON bodies, read strictly: no key twice, no NaN, no half characters."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

_DEEPEST = 32
"""How deep a body may be nested; recorders and validators recurse, and so have an end."""


def loads(text: str) -> Any:
    """Read JSON.

    Raises:
        ValueError: If it is none, has a key twice, a number that is not finite, half
            a character (no database takes one), or is nested too deeply.
    """
    try:
        found = json.loads(
            text,
            object_pairs_hook=_once,
            parse_constant=_refuse,
            parse_float=_finite,
        )
        _bounded(found)
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half a character stands alone") from None
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return found


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _bounded(found: Any) -> None:
    level = [found]
    for _ in range(_DEEPEST + 1):
        level = [part for item in level for part in _parts(item)]
        if not level:
            return
    raise ValueError(f"nested more than {_DEEPEST} deep")


def _parts(item: Any) -> Iterable[Any]:
    if isinstance(item, dict):
        return item.values()
    return item if isinstance(item, list) else ()


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is out of range")
    return number
