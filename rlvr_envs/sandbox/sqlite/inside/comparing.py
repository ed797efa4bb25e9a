"""How a database differs from the one it was copied from: rows and definitions."""

from __future__ import annotations

import marshal
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rlvr_envs.sandbox.sqlite.inside.statements import cell

Values = tuple[Any, ...]

_TABLES = """
SELECT name FROM main.sqlite_schema WHERE type = 'table'
AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND sql NOT LIKE 'CREATE VIRTUAL%'
ORDER BY name
"""
_COLUMNS = 'SELECT name, upper(type), pk FROM pragma_table_xinfo(?, "main") WHERE hidden = 0 ORDER BY cid'
_ENTRIES = """
SELECT type, name, tbl_name, coalesce(sql, '') FROM main.sqlite_schema
WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, name
"""
_SETTINGS = ("user_version", "application_id")
_BYTES_MAX = 32 << 20
_ROWS_AT_ONCE = 512
_NUMBERS = ("INT", "REAL", "FLOA", "DOUB", "NUM", "DEC")
_KINDS = {"table": "kind r", "view": "kind v", "index": "kind i"}
_ROWIDS = ("rowid", "_rowid_", "oid")


@dataclass(frozen=True, slots=True)
class Column:
    """A stored column.

    Attributes:
        type: As declared, in upper case.
        key: Its place in the primary key, from 1; 0 outside.
    """

    name: str
    type: str
    key: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the seed; generated columns are left out.

    Attributes:
        rowid: Name by which its row numbers can be read; empty if it has none.
    """

    name: str
    columns: tuple[Column, ...]
    rowid: str

    @property
    def title(self) -> str:
        """Its name with the schema's."""
        return f"main.{self.name}"

    @property
    def key(self) -> tuple[str, ...]:
        """Columns of the primary key, in order."""
        keyed = sorted((c for c in self.columns if c.key), key=lambda c: c.key)
        return tuple(column.name for column in keyed)

    def shown(self, values: Values) -> dict[str, str | None]:
        """Return a row as text.

        A text in a column of numbers is written as the engine's literal, quoted:
        the engine takes it, and nobody who reads it as a number may miss it.
        """
        pairs = zip(self.columns, values, strict=True)
        return {column.name: _shown(column, value) for column, value in pairs}


def compare(
    base: sqlite3.Connection, now: sqlite3.Connection, limit_rows: int
) -> dict[str, Any]:
    """Return what differs, as plain data.

    Rows are compared with their storage classes: 250 and ``'250'`` differ.

    Args:
        base: The seed's database.
        now: The episode's, which nobody writes to.
        limit_rows: Of each table and side; beyond it the result is incomplete.
    """
    rows: list[dict[str, Any]] = []
    complete = True
    found = {table.name: table for table in _tables(now)}
    unread = []
    for table in _tables(base):
        if found.get(table.name) != table:
            unread.append(table.title)
            continue
        gone, come, all_of_it = _differing(base, now, table, limit_rows)
        rows += _paired(table, gone, come)
        complete = complete and all_of_it
    told = _bounded(rows)
    complete = complete and len(told) == len(rows)
    return {
        "rows": told,
        "catalogue": _redefined(_entries(base), _entries(now)),
        "unread": unread,
        "complete": complete,
    }


def _bounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what would not fit into a message: an agent chooses its values."""
    size = 0
    for count, row in enumerate(rows):
        texts = (*row["old"].values(), *row["new"].values())
        size += sum(len(text) for text in texts if text is not None)
        if size > _BYTES_MAX:
            return rows[:count]
    return rows


def _tables(connection: sqlite3.Connection) -> list[Table]:
    names = [name for (name,) in connection.execute(_TABLES).fetchall()]
    return [_table(connection, name) for name in names]


def _table(connection: sqlite3.Connection, name: str) -> Table:
    columns = tuple(
        Column(str(column), str(declared), int(place))
        for column, declared, place in connection.execute(_COLUMNS, [name])
    )
    taken = {column.name.lower() for column in columns}
    free = [rowid for rowid in _ROWIDS if rowid not in taken]
    rowid = free[0] if free else ""
    try:
        connection.execute(f"SELECT {rowid or 1} FROM main.{quoted(name)} LIMIT 0")  # noqa: S608 - quoted
    except sqlite3.OperationalError:
        rowid = ""
    return Table(name, columns, rowid)


def _differing(
    base: sqlite3.Connection, now: sqlite3.Connection, table: Table, limit_rows: int
) -> tuple[list[Values], list[Values], bool]:
    walk = _merged if table.rowid else _counted
    try:
        found = walk(_rows(base, table), _rows(now, table), limit_rows)
    except sqlite3.OperationalError:
        # A text that is none: read again, and slower, byte for byte.
        old, new = (_rows(side, table, decode=as_it_is) for side in (base, now))
        found = walk(old, new, limit_rows)
    gone, come, complete = found
    moved = Counter(map(_typed, gone)) & Counter(map(_typed, come))
    return _without(gone, moved), _without(come, moved), complete


def as_it_is(data: bytes) -> str:
    """Return a text of any bytes, none of them lost."""
    return data.decode("utf-8", "surrogateescape")


def _rows(
    connection: sqlite3.Connection,
    table: Table,
    *,
    decode: Callable[[bytes], str] | type[str] = str,
) -> sqlite3.Cursor:
    names = [quoted(column.name) for column in table.columns]
    order = ""
    if table.rowid:
        names, order = [table.rowid, *names], f" ORDER BY {table.rowid}"
    source = f"main.{quoted(table.name)} NOT INDEXED"
    connection.text_factory = decode
    return connection.execute(f"SELECT {', '.join(names)} FROM {source}{order}")  # noqa: S608 - quoted


def _merged(
    old: sqlite3.Cursor, new: sqlite3.Cursor, limit: int
) -> tuple[list[Values], list[Values], bool]:
    """Walk both by row number, so that no table has to fit into memory.

    Many rows are compared at once, and one by one only where these differ.
    """
    gone: list[Values] = []
    come: list[Values] = []
    left: deque[Values] = deque()
    right: deque[Values] = deque()
    while True:
        left.extend(old.fetchmany(_ROWS_AT_ONCE - len(left)))
        right.extend(new.fetchmany(_ROWS_AT_ONCE - len(right)))
        if not left and not right:
            return gone, come, True
        if _typed(tuple(left)) == _typed(tuple(right)):
            left.clear()
            right.clear()
        elif not _apart(left, right, (gone, come), limit):
            return gone, come, False


def _apart(
    left: deque[Values],
    right: deque[Values],
    found: tuple[list[Values], list[Values]],
    limit: int,
) -> bool:
    """Take rows from both until one is used up; say whether there is room for all."""
    gone, come = found
    ended = not left or not right
    while (left or right) if ended else (left and right):
        if max(len(gone), len(come)) >= limit:
            return False
        if not right or (left and left[0][0] < right[0][0]):
            gone.append(left.popleft()[1:])
        elif not left or right[0][0] < left[0][0]:
            come.append(right.popleft()[1:])
        else:
            before, after = left.popleft(), right.popleft()
            if _typed(before) != _typed(after):
                gone.append(before[1:])
                come.append(after[1:])
    return True


def _counted(
    old: sqlite3.Cursor, new: sqlite3.Cursor, limit: int
) -> tuple[list[Values], list[Values], bool]:
    before, after = Counter(map(_typed, old)), Counter(map(_typed, new))
    gone = [marshal.loads(row) for row in (before - after).elements()]  # noqa: S302 - dumped here
    come = [marshal.loads(row) for row in (after - before).elements()]  # noqa: S302 - dumped here
    return gone[:limit], come[:limit], max(len(gone), len(come)) <= limit


def _without(rows: list[Values], moved: Counter[bytes]) -> list[Values]:
    """Leave out rows that only got another number."""
    left = moved.copy()
    kept = []
    for row in rows:
        if left[_typed(row)] > 0:
            left[_typed(row)] -= 1
        else:
            kept.append(row)
    return kept


def _typed(values: Values) -> bytes:
    # Version 1 writes no references: equal values give equal bytes.
    return marshal.dumps(values, 1)


def _paired(
    table: Table, gone: Sequence[Values], come: Sequence[Values]
) -> Iterator[dict[str, Any]]:
    """Yield updates of rows whose key stayed, then what is left of both sides."""
    key = _key_of(table)
    arrived = {key(row): row for row in come} if table.key else {}
    paired = set()
    for row in gone:
        new = arrived.get(key(row)) if table.key else None
        if new is not None:
            paired.add(key(row))
        yield _change(table, row, new)
    for row in come:
        if not table.key or key(row) not in paired:
            yield _change(table, None, row)


def _key_of(table: Table) -> Callable[[Values], bytes]:
    names = [column.name for column in table.columns]
    places = [names.index(name) for name in table.key]
    return lambda row: _typed(tuple(row[place] for place in places))


def _change(table: Table, old: Values | None, new: Values | None) -> dict[str, Any]:
    kind = "insert" if old is None else "delete" if new is None else "update"
    return {
        "table": table.title,
        "kind": kind,
        "old": table.shown(old) if old is not None else {},
        "new": table.shown(new) if new is not None else {},
        "key": list(table.key),
    }


def _shown(column: Column, value: Any) -> str | None:
    number = any(word in column.type for word in _NUMBERS)
    if isinstance(value, str) and number:
        return "'" + value.replace("'", "''") + "'"
    return cell(value)


def _entries(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for kind, name, table, text in connection.execute(_ENTRIES):
        if kind in _KINDS:
            found["relation", f"main.{name}"] = f"{_KINDS[kind]} {text}"
        else:
            found[kind, f"main.{name} on main.{table}"] = text
    for name in _SETTINGS:
        (value,) = connection.execute(f"PRAGMA main.{name}").fetchone()
        found["setting", name] = str(value)
    return found


def _redefined(
    old: dict[tuple[str, str], str], new: dict[tuple[str, str], str]
) -> list[dict[str, str]]:
    return [
        {
            "kind": kind,
            "name": name,
            "old": old.get((kind, name), ""),
            "new": new.get((kind, name), ""),
        }
        for kind, name in sorted(old.keys() | new.keys())
        if old.get((kind, name)) != new.get((kind, name))
    ]


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'
