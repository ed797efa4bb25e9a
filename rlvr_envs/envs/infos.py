"""One slot's info out of a vector environment's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def info_of(infos: Mapping[str, Any], slot: int) -> dict[str, Any]:
    """Return what one environment said, as it said it.

    Vector environments keep an array for each key, nested ones too, and under
    ``_key`` which slots had it. Numbers come back as plain Python ones.

    Args:
        infos: As `reset` or `step` of a vector environment returned them.
        slot: Which environment.

    Returns:
        Empty for a slot that did not run.
    """
    return {
        key: _one(value, slot)
        for key, value in infos.items()
        if not key.startswith("_") and infos[f"_{key}"][slot]
    }


def _one(value: Any, slot: int) -> Any:
    if isinstance(value, Mapping):
        return info_of(value, slot)
    found = value[slot]
    return found.item() if hasattr(found, "item") else found
