"""A server's answer as text: comma-separated rows, or the error with its state."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlvr_envs.envs.sql_rest.wire import Answer, Cells, SqlError
from rlvr_envs.tools.text import decode, show_invisible

_CELL_CHARS = 2_000
_QUOTED = re.compile(r'[",\r\n]|^\\\.$|^\s|\s$')


def render(answer: Answer) -> str:
    """Return rows, the command's tag and notices, or the error, as lines.

    Rows are comma-separated values as PostgreSQL writes them: NULL is nothing at
    all, an empty text is ``""``.

    Source:
        Own rule: ARCHITECTURE.md#sql-observations.
    """
    lines = [show_invisible(notice) for notice in answer.notices]
    if answer.columns and answer.error is None:
        lines += _table(answer)
    if answer.copied:
        lines += [show_invisible(decode(bytes(answer.copied))).rstrip("\n")]
        lines += _left_out(answer.bytes_total - answer.bytes_kept, "bytes")
    if answer.error is not None:
        lines += _error(answer.error)
    elif not answer.columns:
        lines.append(answer.tag or "(an empty statement)")
    return "\n".join(lines)


def _table(answer: Answer) -> Iterable[str]:
    yield _line(answer.columns)
    yield from map(_line, answer.rows)
    yield from _left_out(answer.rows_total - len(answer.rows), "rows")
    # A statement that wrote and returned rows says what it wrote.
    if not answer.tag.startswith("SELECT"):
        yield answer.tag
    yield "(1 row)" if answer.rows_total == 1 else f"({answer.rows_total} rows)"


def _left_out(count: int, unit: str) -> Iterable[str]:
    if count > 0:
        yield f"[... {count} more {unit} not shown: narrow the query ...]"


def _line(cells: Cells) -> str:
    return ",".join(map(_cell, cells))


def _cell(value: str | None) -> str:
    if value is None:
        return ""
    if len(value) > _CELL_CHARS:
        value = f"{value[:_CELL_CHARS]}[... {len(value) - _CELL_CHARS} more characters]"
    shown = show_invisible(value)
    if not shown or _QUOTED.search(shown):
        return '"' + shown.replace('"', '""') + '"'
    return shown


def _error(error: SqlError) -> Iterable[str]:
    yield f"{error.severity} {error.state}: {show_invisible(error.message)}"
    if error.detail:
        yield f"DETAIL: {show_invisible(error.detail)}"
    if error.hint:
        yield f"HINT: {show_invisible(error.hint)}"
    if error.position:
        yield f"POSITION: character {error.position} of the statement"
