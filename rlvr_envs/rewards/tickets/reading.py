"""Strict reading of a mapping: whatever is wrong, the message names the key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeVar

Item = TypeVar("Item")
Word = TypeVar("Word", bound=StrEnum)


def refuse(where: str, message: str) -> ValueError:
    """Return the error for one key; the caller raises it."""
    return ValueError(f"{where}: {message}")


@dataclass(frozen=True, slots=True)
class Keys:
    """A mapping with known keys, and where it stands in its document.

    Attributes:
        where: Dotted place, such as ``case.policy[0]``.
    """

    data: Mapping[str, Any]
    where: str

    def at(self, key: str) -> str:
        """Return the place of a key."""
        return f"{self.where}.{key}"

    def text(self, key: str) -> str:
        """Return a string that is not blank."""
        return a_name(self.data[key], self.at(key))

    def whole(self, key: str, default: int) -> int:
        """Return a whole number of at least 1, or the default if it is left out."""
        value = self.data.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise refuse(
                self.at(key), f"is a whole number of at least 1, not {value!r}."
            )
        return value

    def rows(
        self, key: str, read: Callable[[Any, str], Item], *, empty_ok: bool = True
    ) -> tuple[Item, ...]:
        """Return each item of a list as ``read`` makes it; empty if left out."""
        value = self.data.get(key, [])
        if not isinstance(value, list | tuple):
            raise refuse(self.at(key), f"is a list, not {value!r}.")
        if not value and not empty_ok:
            raise refuse(self.at(key), "is empty; name at least one.")
        place = self.at(key)
        return tuple(read(item, f"{place}[{n}]") for n, item in enumerate(value))

    def table(self, key: str, read: Callable[[Any, str], Item]) -> dict[str, Item]:
        """Return each value of a mapping as ``read`` makes it; empty if left out."""
        value = self.data.get(key, {})
        if not isinstance(value, Mapping):
            raise refuse(self.at(key), f"is a mapping, not {value!r}.")
        names = {a_name(name, self.at(key)): item for name, item in value.items()}
        return {
            name: read(item, f"{self.at(key)}.{name}") for name, item in names.items()
        }


def keys(
    data: object, where: str, required: Iterable[str], optional: Iterable[str] = ()
) -> Keys:
    """Return the mapping after checking which keys it has.

    Raises:
        ValueError: If it is no mapping, lacks a key, or has one that is not known.
    """
    if not isinstance(data, Mapping):
        raise refuse(where, f"is a mapping, not {data!r}.")
    needed = tuple(required)
    known = (*needed, *optional)
    for key in data:
        if key not in known:
            raise refuse(f"{where}.{key}", f"is not a key here{_hint(key, known)}.")
    for key in needed:
        if key not in data:
            raise refuse(f"{where}.{key}", "is missing.")
    return Keys(data, where)


def a_name(value: object, where: str) -> str:
    """Return a string that is not blank.

    Raises:
        ValueError: If it is anything else.
    """
    if not isinstance(value, str) or not value.strip():
        raise refuse(where, f"is a name in plain text, not {value!r}.")
    return value


def a_word(value: object, where: str, words: type[Word]) -> Word:
    """Return the member of an enumeration that a string names.

    Raises:
        ValueError: If there is none; names those that there are.
    """
    if not isinstance(value, str) or value not in set(words):
        known = ", ".join(words)
        raise refuse(where, f"is one of {known}, not {value!r}.")
    return words(value)


def _hint(key: object, known: Iterable[str]) -> str:
    names = tuple(known)
    near = get_close_matches(str(key), names, n=1)
    return f"; did you mean {near[0]}?" if near else f" (known: {', '.join(names)})"
