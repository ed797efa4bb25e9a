"""Rows as digests of their typed values, the same for equal values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from psycopg import sql

from rlvr_envs.relational import Row
from rlvr_envs.sandbox.postgres.cluster import Connection

# A number's scale and a zero's sign are no values; NaN equals NaN by its text.
_CANONICAL = {
    "numeric": "trim_scale({})::text",
    "real": "({} + 0::real)::text",
    "double precision": "({} + 0::double precision)::text",
}

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
        values = sql.SQL(", ").join(
            sql.SQL(_CANONICAL.get(column.type, "{}::text")).format(
                sql.Identifier(column.name)
            )
            for column in self.columns
        )
        return sql.SQL("sha256(convert_to((ARRAY[{}]::text[])::text, 'UTF8'))").format(
            values
        )

    @property
    def values(self) -> sql.Composed:
        """An expression: the row's values as the server prints them."""
        values = sql.SQL(", ").join(
            sql.SQL("{}::text").format(sql.Identifier(column.name))
            for column in self.columns
        )
        return sql.SQL("ARRAY[{}]::text[]").format(values)


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


def digests(connection: Connection, table: Table) -> list[bytes]:
    """Return the digest of each row of a table, sorted, with repeats."""
    query = sql.SQL("SELECT {} AS d FROM {} ORDER BY d").format(
        table.digest, table.source
    )
    return [cast("bytes", found) for (found,) in connection.execute(query)]


def rows(
    connection: Connection, table: Table, wanted: Sequence[bytes]
) -> dict[bytes, Row]:
    """Return the rows that have one of some digests, by digest; of equals, one."""
    query = sql.SQL("SELECT {} AS d, {} FROM {} WHERE {} = ANY (%s)").format(
        table.digest, table.values, table.source, table.digest
    )
    names = [column.name for column in table.columns]
    found = connection.execute(query, [list(wanted)]).fetchall()
    return {
        cast("bytes", digest): dict(
            zip(names, cast("list[str | None]", values), strict=True)
        )
        for digest, values in found
    }
