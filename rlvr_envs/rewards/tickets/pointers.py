"""Pointers into the environment snapshot, and what it means that values agree."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from typing_extensions import override

from rlvr_envs.records import JsonObject
from rlvr_envs.rewards.tickets.reading import refuse

_FORM = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)+")


@dataclass(frozen=True, slots=True)
class Pointer:
    """A path into the snapshot, such as ``order.paid_amount`` or ``order.items.0.sku``.

    Raises:
        ValueError: If it has not the form of two or more names joined by dots.
    """

    path: str

    def __post_init__(self) -> None:
        if not _FORM.fullmatch(self.path):
            raise ValueError(
                f"A pointer looks like order.paid_amount, not {self.path!r}."
            )

    @override
    def __str__(self) -> str:
        return self.path


def a_pointer(value: object, where: str) -> Pointer:
    """Read a pointer; a concrete answer is refused, whatever it is.

    Raises:
        ValueError: If the value is no pointer; names the key.
    """
    if not isinstance(value, str) or not _FORM.fullmatch(value):
        raise refuse(where, f"is a pointer such as order.paid_amount, not {value!r}.")
    return Pointer(value)


def resolve(pointer: Pointer, snapshot: JsonObject) -> Any:
    """Return what a pointer stands for in a snapshot.

    A name selects a key of a mapping, a whole number an item of a list, from 0.

    Raises:
        ValueError: If the path leads nowhere; says where it ends and what is there.
    """
    here: Any = snapshot
    for depth, name in enumerate(pointer.path.split(".")):
        if isinstance(here, Mapping) and name in here:
            here = here[name]
        elif is_list(here) and name.isdecimal() and int(name) < len(here):
            here = here[int(name)]
        else:
            raise ValueError(_nowhere(pointer, depth, here))
    return here


def same(one: object, other: object) -> bool:
    """Whether two values agree: numbers by amount, all else by type and value.

    ``True`` is not 1, NaN agrees with nothing, and text is never a number.
    """
    if is_number(one) and is_number(other):
        return number(one) == number(other)
    return type(one) is type(other) and one == other


def is_number(value: object) -> bool:
    """Whether a value is a finite number; a truth value is none."""
    if isinstance(value, Decimal):
        return value.is_finite()
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def number(value: object) -> Decimal:
    """Return a number as a decimal with the digits that it prints."""
    if isinstance(value, Decimal | int):
        return Decimal(value)
    return Decimal(str(value))


def is_list(value: object) -> bool:
    """Whether a value is a list; text is none."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _nowhere(pointer: Pointer, depth: int, here: object) -> str:
    names = pointer.path.split(".")
    place = ".".join(names[:depth]) or "the snapshot"
    if isinstance(here, Mapping):
        there = f"the keys {', '.join(sorted(map(str, here))) or '(none)'}"
    else:
        there = f"{len(here)} items" if is_list(here) else "a plain value"  # type: ignore[arg-type]  # is_list says that it has a length
    return f"{pointer}: {place} has no {names[depth]!r}; it holds {there}."
