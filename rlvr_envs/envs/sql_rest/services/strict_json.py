"""JSON bodies, read strictly: no key twice, no NaN."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def loads(text: str) -> Any:
    """Read JSON.

    Raises:
        ValueError: If it is none, has a key twice, a number that is not finite, or is
            nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")
