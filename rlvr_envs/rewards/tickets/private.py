"""Whether a text carries a private value, however it is dressed up.

Case, width, invisible characters and the usual ways to take an address or a number
apart make no difference. What needs understanding (digits as words, letters of other
scripts that look alike) is not seen.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache
from urllib.parse import unquote

from rlvr_envs.rewards.tickets.pointers import same

_DIGITS_MIN = 6
"""Fewer digits are no number to take apart: they are looked for as they are."""

_LEFT, _RIGHT = r"[(\[{<]\s*", r"\s*[)\]}>]"
_GAP = r"\s*"
_NAMES = {"@": "at", ".": "dot"}
_BETWEEN_DIGITS = r"[\s\-./()_,]{0,3}"
_BETWEEN_WORDS = r"[\W_]{1,3}"
_NUMBER = re.compile(r"\+?[\d\s\-./()]+")
_ADDRESS = re.compile(r"[^\s@]+@[^\s@]+")


def carries(value: object, private: object) -> bool:
    """Whether a written value is a private one, or a text that has it in it.

    A number is not found within a longer one, nor a word within a longer word.
    """
    if isinstance(value, str):
        return _pattern(plain(str(private))).search(plain(value)) is not None
    return same(value, private)


def plain(text: str) -> str:
    """Return a text in one width and case, escapes and invisible characters undone."""
    decoded = unquote(html.unescape(text))
    wide = unicodedata.normalize("NFKC", decoded)
    seen = (c for c in wide if unicodedata.category(c) not in {"Cf", "Mn"})
    return "".join(map(_digit, seen)).casefold()


def _digit(character: str) -> str:
    value = unicodedata.decimal(character, None)
    return character if value is None else str(value)


@lru_cache(maxsize=256)
def _pattern(private: str) -> re.Pattern[str]:
    if _ADDRESS.fullmatch(private):
        found = _address(private)
    elif _NUMBER.fullmatch(private) and sum(map(str.isdigit, private)) >= _DIGITS_MIN:
        found = _number(private)
    else:
        words = re.findall(r"[^\W_]+", private)
        found = _BETWEEN_WORDS.join(words) if len(words) > 1 else re.escape(private)
    return re.compile(rf"(?<!\w){found}(?!\w)")


def _address(private: str) -> str:
    return _GAP.join(map(_sign, private))


def _sign(character: str) -> str:
    name = _NAMES.get(character)
    sign = re.escape(character)
    if name is None:
        return sign
    dressed = rf"{_LEFT}(?:{sign}|{name}){_RIGHT}"
    return rf"(?:{sign}|{dressed}|(?<=[\s_\-]){name}(?=[\s_\-])|[\s_\-]+{name}[\s_\-]+)"


def _number(private: str) -> str:
    digits = _BETWEEN_DIGITS.join(re.findall(r"\d", private))
    return rf"(?:00)?{digits}" if private.startswith("+") else digits
