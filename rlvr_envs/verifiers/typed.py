"""Values as a database has them, compared without surprises.

Numbers are equal by value and exactly; NaN and the infinities equal nothing unless
they are asked for by name; texts are equal by their characters, trailing blanks
included; a number is never equal to a text or to a truth value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

NAMED = ("decimal", "float", "iso")
"""``{decimal: "4.20"}``, ``{float: "NaN"}``, ``{iso: "2024-01-15"}``."""

VALUE: dict[str, Any] = {
    "anyOf": [
        {"type": ["null", "boolean", "number", "string"]},
        *(
            {
                "type": "object",
                "properties": {name: {"type": "string", "minLength": 1}},
                "required": [name],
                "additionalProperties": False,
            }
            for name in (*NAMED, "hidden")
        ),
    ]
}
"""JSON Schema of a value that an option names."""

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def agrees(found: Any, wanted: Any) -> bool:
    """Return whether a value that a query found is the one that is wanted.

    Raises:
        ValueError: If what is wanted is no value.
    """
    if isinstance(wanted, Mapping):
        return _named(wanted, found)
    if wanted is None or isinstance(wanted, bool):
        return found is wanted
    if isinstance(wanted, int | float):
        return _is_number(found) and _same_number(found, wanted)
    if isinstance(wanted, str):
        return isinstance(found, str) and found == wanted
    raise ValueError(f"{wanted!r} is no value that a column can have.")


def text_agrees(found: str | None, wanted: Any) -> bool:
    """Return the same for the text that the server prints of a value.

    A number's text is the canonical one: ``0250`` and ``250 `` are no numbers.

    Raises:
        ValueError: If what is wanted is no value.
    """
    if found is None or wanted is None:
        return found is wanted
    if isinstance(wanted, bool):
        return found == str(wanted).lower()
    if isinstance(wanted, int | float):
        number = _parsed(found)
        return number is not None and bool(number == Decimal(str(wanted)))
    if isinstance(wanted, Mapping) and "iso" not in wanted:
        return _named(wanted, _parsed(found))
    if isinstance(wanted, Mapping):
        return bool(found == wanted["iso"])
    if isinstance(wanted, str):
        return found == wanted
    raise ValueError(f"{wanted!r} is no value that a column can have.")


def _is_number(value: Any) -> bool:
    if isinstance(value, float | Decimal):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _same_number(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, Decimal | int):
        return bool(Decimal(found) == Decimal(str(wanted)))
    return bool(found == wanted)


def _decimal(found: Any, text: str) -> bool:
    if not _is_exact(found):
        return False
    return _same_or_both_nan(Decimal(found), _number(text))


def _float(found: Any, text: str) -> bool:
    if not (_is_exact(found) or isinstance(found, float)):
        return False
    try:
        return _same_or_both_nan(float(found), float(text))
    except OverflowError:  # an integer that no float can hold
        return False


def _iso(found: Any, text: str) -> bool:
    known = isinstance(found, date | datetime | time)
    return known and bool(found.isoformat() == text)


_FORMS: Mapping[str, Callable[[Any, str], bool]] = {
    "decimal": _decimal,
    "float": _float,
    "iso": _iso,
}


def _named(wanted: Mapping[str, Any], found: Any) -> bool:
    if len(wanted) != 1 or next(iter(wanted)) not in _FORMS:
        raise ValueError(f"{dict(wanted)!r} is no value that a column can have.")
    ((form, text),) = wanted.items()
    return _FORMS[form](found, str(text))


def _is_exact(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _same_or_both_nan(one: Any, other: Any) -> bool:
    return bool(one == other) or (math.isnan(one) and math.isnan(other))


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is no decimal number.") from None


def _parsed(text: str) -> Decimal | None:
    if text not in ("NaN", "Infinity", "-Infinity") and not _NUMBER.fullmatch(text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond all bounds
        return None
