"""Rows as digests of their typed values, the same for equal values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString, cast

from psycopg import sql

from rlvr_envs.sandbox.postgres.cluster import Connection

DIGEST_BYTES = 32

# A number's scale and a zero's sign are no values; NaN equals NaN by its text.
_CANONICAL = {
    "numeric": "trim_scale({})::text",
    "real": "({} + 0::real)::text",
    "double precision": "({} + 0::double precision)::text",
}

# A value that is longer stands in a row's digest as a digest of its own: an array of
# such values as text is more than the server can hold.
_LONG = 1_000_000
_LONG_DIGESTS: dict[str, LiteralString] = {
    "text": "encode(sha256(convert_to({}::text, 'UTF8')), 'hex')",
    "character varying": "encode(sha256(convert_to({}::text, 'UTF8')), 'hex')",
    "bytea": "encode(sha256({}), 'hex')",
}
_BLOCK = 256 * DIGEST_BYTES
"""Compared at once where both sides are equal."""

_TABLES = """
SELECT n.nspname, c.relname, c.oid, a.attname,
  format_type(CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END, NULL),
  coalesce(a.attnum = ANY (i.indkey), false)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a
  ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
LEFT JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE c.relkind = 'r' AND c.oid >= 16384 AND n.nspname !~ '^pg_'
  AND n.nspname <> 'rlvr_service'
ORDER BY n.nspname, c.relname, a.attnum
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A stored column.

    Attributes:
        type: As the server names it; a domain's base type.
        key: Whether it is part of the primary key.
    """

    name: str
    type: str
    key: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table that holds rows itself; generated columns are left out.

    Attributes:
        oid: The server's number for it, the same in every clone of a template: an
            equal table is the same relation, not another in its place.
    """

    schema: str
    name: str
    oid: int
    columns: tuple[Column, ...]

    @property
    def title(self) -> str:
        """``schema.name``, unquoted."""
        return f"{self.schema}.{self.name}"

    @property
    def key(self) -> tuple[str, ...]:
        """Columns of the primary key, in the table's order; empty if it has none."""
        return tuple(column.name for column in self.columns if column.key)

    @property
    def source(self) -> sql.Composed:
        """What to read from: this table alone, not what inherits from it."""
        return sql.SQL("ONLY {}").format(sql.Identifier(self.schema, self.name))

    @property
    def digest(self) -> sql.Composed:
        """An expression: the SHA-256 of a row's values, NULL apart from any text."""
        plain = sql.SQL("(ARRAY[{}]::text[])::text").format(
            sql.SQL(", ").join(map(_value, self.columns))
        )
        long = [column for column in self.columns if column.type in _LONG_DIGESTS]
        text: sql.Composable = plain
        if long:
            text = sql.SQL(
                "CASE WHEN {} THEN 'long' || (ARRAY[{}]::text[])::text ELSE {} END"
            ).format(
                sql.SQL(" OR ").join(map(_is_long, long)),
                sql.SQL(", ").join(map(_marked, self.columns)),
                plain,
            )
        return sql.SQL("sha256(convert_to({}, 'UTF8'))").format(text)


def _value(column: Column) -> sql.Composed:
    form = _CANONICAL.get(column.type, "{}::text")
    return sql.SQL(form).format(sql.Identifier(column.name))


def _is_long(column: Column) -> sql.Composed:
    return sql.SQL("octet_length({}) > {}").format(sql.Identifier(column.name), _LONG)


def _marked(column: Column) -> sql.Composed:
    """Return two elements, so that no text can stand for a longer one's digest."""
    if column.type not in _LONG_DIGESTS:
        return sql.SQL("NULL, {}").format(_value(column))
    long = sql.SQL(_LONG_DIGESTS[column.type]).format(sql.Identifier(column.name))
    return sql.SQL("({0})::text, CASE WHEN {0} THEN {1} ELSE {2} END").format(
        _is_long(column), long, _value(column)
    )


def tables(connection: Connection) -> tuple[Table, ...]:
    """Return the tables of a database, sorted by title."""
    columns: dict[tuple[str, str, int], list[Column]] = {}
    for schema, name, oid, column, kind, key in connection.execute(_TABLES).fetchall():
        known = columns.setdefault((str(schema), str(name), int(str(oid))), [])
        if column is not None:
            known.append(Column(str(column), str(kind), key is True))
    return tuple(Table(*title, tuple(known)) for title, known in columns.items())


def fingerprints(connection: Connection, among: Sequence[Table]) -> dict[str, str]:
    """Return a digest of all rows of each table, whatever their order.

    Returns:
        Title to the digest in hexadecimal; of nothing for an empty table.
    """
    if not among:
        return {}
    one: sql.SQL = sql.SQL(
        "SELECT {}::text, encode(sha256(coalesce("
        "string_agg(d, ''::bytea ORDER BY d), ''::bytea)), 'hex') "
        "FROM (SELECT {} AS d FROM {}) AS rows"
    )
    query = sql.SQL(" UNION ALL ").join(
        one.format(table.title, table.digest, table.source) for table in among
    )
    return {str(title): str(total) for title, total in connection.execute(query)}


def digests(connection: Connection, table: Table) -> bytes:
    """Return the digests of all rows of a table, sorted, one after the other."""
    query = sql.SQL(
        "SELECT coalesce(string_agg(d, ''::bytea ORDER BY d), ''::bytea) "
        "FROM (SELECT {} AS d FROM {}) AS rows"
    ).format(table.digest, table.source)
    with connection.cursor(binary=True) as cursor:
        ((found,),) = cursor.execute(query).fetchall()
    return cast("bytes", found)


def apart(
    before: bytes, after: bytes, *, limit: int
) -> tuple[list[bytes], list[bytes], bool]:
    """Return which digests are of one side alone, sorted, with repeats.

    Args:
        before: As `digests` returns them.
        after: Likewise.
        limit: Of each side.

    Returns:
        Those that are gone, those that have come, and whether that is all of them.
    """
    gone: list[bytes] = []
    come: list[bytes] = []
    old = new = 0
    while old < len(before) or new < len(after):
        if before[old : old + _BLOCK] == after[new : new + _BLOCK]:
            old, new = old + _BLOCK, new + _BLOCK
            continue
        left = before[old : old + DIGEST_BYTES]
        right = after[new : new + DIGEST_BYTES]
        if not right or (left and left < right):
            gone.append(left)
        elif not left or right < left:
            come.append(right)
        old += DIGEST_BYTES if left and (left <= right or not right) else 0
        new += DIGEST_BYTES if right and (right <= left or not left) else 0
        if max(len(gone), len(come)) > limit:
            return gone[:limit], come[:limit], False
    return gone, come, True


def sizes(connection: Connection, among: Sequence[Table]) -> dict[str, int]:
    """Return how much room each table takes, its long values included, in bytes."""
    found = connection.execute(
        "SELECT number::bigint, pg_table_size(number) FROM unnest(%s::oid[]) AS number",
        [[table.oid for table in among]],
    )
    by_number = {int(str(oid)): int(str(size or 0)) for oid, size in found}
    return {table.title: by_number[table.oid] for table in among}


def count(connection: Connection, table: Table) -> int:
    """Return how many rows a table has."""
    query = sql.SQL("SELECT count(*) FROM {}").format(table.source)
    ((found,),) = connection.execute(query).fetchall()
    return int(str(found))
