"""Plain data as a line of JSON: the same value gives the same bytes everywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 32

MAX_INT_BITS = 4096
"""Of an integer that is written out; Python refuses to print much longer ones."""


_STRICT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def encode(value: Any) -> bytes:
    """Return compact ASCII JSON with sorted keys, without a line end.

    Anything that JSON cannot say is replaced by a word for it (a NaN by ``"nan"``,
    an object by its type's name), since an agent's action may be anything and a
    record must not fail on it.
    """
    try:
        text = _STRICT.encode(value)
    except (TypeError, ValueError, RecursionError):
        text = _STRICT.encode(plain(value))
    return text.encode("ascii")


def plain(value: Any, depth: int = 0) -> Any:
    """Return ``value`` as data that JSON can say; nesting ends at `MAX_DEPTH`."""
    if depth > MAX_DEPTH:
        return "<too deep>"
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    item = value.item() if hasattr(value, "item") and hasattr(value, "dtype") else value
    if isinstance(item, float):
        return item if math.isfinite(item) else str(item)
    if isinstance(item, int) and item.bit_length() > MAX_INT_BITS:
        return f"<int of {item.bit_length()} bits>"
    if item is None or isinstance(item, (bool, int, str)):
        return item
    if isinstance(item, (bytes, bytearray)):
        return bytes(item).decode("latin-1")
    return f"<{type(item).__name__}>"
