"""Rule books by name, for registry.yaml and the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from rlvr_envs.records import ToolCategory
from rlvr_envs.rewards.generic_rules import generic_book
from rlvr_envs.rewards.path_rules import RuleBook
from rlvr_envs.rewards.sql_rules import sql_book
from rlvr_envs.rewards.terminal_rules import terminal_book


class _Maker(Protocol):
    def __call__(self, categories: Iterable[ToolCategory]) -> RuleBook: ...


def _terminal(categories: Iterable[ToolCategory]) -> RuleBook:
    del categories  # a shell can do acts of every category
    return terminal_book()


def _sql(categories: Iterable[ToolCategory]) -> RuleBook:
    del categories  # the doors of a database do acts of every category
    return sql_book()


BOOKS: Mapping[str, _Maker] = MappingProxyType(
    {"generic": generic_book, "sql": _sql, "terminal": _terminal}
)


def book_named(name: str, categories: Iterable[ToolCategory]) -> RuleBook:
    """Return a rule book for an agent with tools of the given categories.

    Raises:
        ValueError: If there is no such book; names those that there are.
    """
    if name not in BOOKS:
        raise ValueError(f"There is no rule book {name!r}; known: {', '.join(BOOKS)}.")
    return BOOKS[name](categories)
