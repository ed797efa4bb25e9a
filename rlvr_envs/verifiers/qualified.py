"""Whether a statement only reads, and names the schema of everything it reads from.

The grader's path holds the server's own catalogue alone, so that nothing that an
agent makes can stand in for a table. A name without a schema would be found nowhere;
it is refused where a person can still read the message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_TOKENS = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>[eE]?'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    |(?P<value>%\(\w+\)s)
    |(?P<name>(?:"(?:[^"]|"")+"|[^\W\d][\w$]*)
       (?:\s*\.\s*(?:"(?:[^"]|"")+"|[^\W\d][\w$]*|\*))*)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_PLACEHOLDER = re.compile(r"%%|%\((\w+)\)s|%")
_READS = frozenset({"select", "with", "values", "table"})
_ENDS = frozenset(
    {"where", "group", "having", "window", "order", "limit", "offset", "fetch", "for"}
    | {"union", "intersect", "except", "on", "using", "returning"}
)
_WRITES = frozenset({"insert", "update", "delete", "merge", "truncate", "copy", "into"})


def flaw(statement: str, values: Mapping[str, Any]) -> str:
    """Return what is wrong with a grader's statement; empty if nothing is."""
    return _placeholders(statement, values) or _Reader(_tokens(statement)).flaw()


def _placeholders(statement: str, values: Mapping[str, Any]) -> str:
    found = list(_PLACEHOLDER.finditer(statement))
    if any(match.group(0) == "%" for match in found):
        return "a percent sign in a statement is doubled, or begins a %(name)s."
    named = {match.group(1) for match in found} - {None}
    if odd := sorted(named ^ values.keys()):
        return f"the value {odd[0]!r} stands in the statement or in values alone."
    return ""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        """The name in lower case, if it is one part and not quoted."""
        plain = self.kind == "name" and not re.search(r'[".]', self.text)
        return self.text.lower() if plain else ""


def _tokens(statement: str) -> list[_Token]:
    return [
        _Token(str(match.lastgroup), match.group(0))
        for match in _TOKENS.finditer(statement)
        if match.lastgroup != "skip"
    ]


@dataclass(slots=True)
class _Level:
    """What is known within one pair of parentheses.

    Attributes:
        selects: Whether a SELECT stood here, so that FROM begins a list of sources.
        sources: Whether we are in that list.
        wanted: Whether the next name is a source.
    """

    selects: bool = False
    sources: bool = False
    wanted: bool = False


@dataclass(slots=True)
class _Reader:
    tokens: list[_Token]
    levels: list[_Level] = field(default_factory=lambda: [_Level()])

    def flaw(self) -> str:
        if not self.tokens or self.tokens[0].word not in _READS:
            return "a statement begins with SELECT, WITH, VALUES or TABLE."
        known = self._own_names()
        for place, token in enumerate(self.tokens):
            if token.text == ";":
                return "one statement, without a semicolon."
            if token.word in _WRITES:
                return f"a statement reads; {token.text.upper()} writes."
            if self._is_source(place, token) and not self._fits(place, token, known):
                return f"{token.text} is not qualified; write its schema before it."
        return ""

    def _own_names(self) -> set[str]:
        """Return the names that a WITH gives to its queries."""
        return {
            name.text.lower()
            for place, name in enumerate(self.tokens)
            if name.kind == "name" and self._is_defined(place)
        }

    def _is_defined(self, place: int) -> bool:
        """Return whether a name is one of a WITH: ``name [(columns)] AS ... (``."""
        after = self._behind_parentheses(place + 1)
        begins = self._text(place - 1) in ("with", "recursive", ",")
        if not begins or self._text(after) != "as":
            return False
        skip = {"not": 2, "materialized": 1}.get(self._text(after + 1), 0)
        return self._text(after + 1 + skip) == "("

    def _behind_parentheses(self, place: int) -> int:
        depth = 0
        while place < len(self.tokens):
            depth += {"(": 1, ")": -1}.get(self._text(place), 0)
            if depth == 0:
                return place + (self._text(place) == ")")
            place += 1
        return place

    def _is_source(self, place: int, token: _Token) -> bool:
        """Follow the statement by one token; return whether it names a source."""
        level = self.levels[-1]
        if token.text == "(":
            inner = _Level(sources=level.wanted, wanted=level.wanted)
            level.wanted = False
            self.levels.append(inner)
        elif token.text == ")":
            if len(self.levels) > 1:
                self.levels.pop()
        elif token.text == ",":
            level.wanted = level.sources
        elif token.word in ("lateral", "only"):
            pass
        elif token.word:
            return self._word(place, token.word, level)
        elif token.kind == "name" and level.wanted:
            level.wanted = False
            return True
        return False

    def _word(self, place: int, word: str, level: _Level) -> bool:
        if word == "select":
            level.selects, level.sources, level.wanted = True, False, False
        elif word in ("values", "with"):
            level.sources = level.wanted = False
        elif word == "table" and self._text(place - 1) in ("", "(", "union", "all"):
            level.wanted = True
        elif word == "from" and level.selects and not self._compares(place):
            level.sources = level.wanted = True
        elif word == "join":
            level.wanted = True
        elif word in _ENDS:
            level.wanted = False
            level.sources = level.sources and word in ("on", "using")
        elif level.wanted:
            level.wanted = False
            return True
        return False

    def _compares(self, place: int) -> bool:
        """Return whether a FROM belongs to IS [NOT] DISTINCT FROM."""
        before = (self._text(place - 1), self._text(place - 2))
        return before[0] == "distinct" and before[1] in ("is", "not")

    def _fits(self, place: int, token: _Token, known: set[str]) -> bool:
        qualified = re.search(r'(?:"|\w)\s*\.\s*(?:"|\w)', token.text) is not None
        function = self._text(place + 1) == "("
        return qualified or function or token.text.lower() in known

    def _text(self, place: int) -> str:
        if 0 <= place < len(self.tokens):
            return self.tokens[place].text.lower()
        return ""
