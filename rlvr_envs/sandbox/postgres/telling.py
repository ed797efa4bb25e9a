"""Rows that differ, as text of a bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from psycopg import sql

from rlvr_envs.relational import Row
from rlvr_envs.sandbox.postgres.cluster import Connection
from rlvr_envs.sandbox.postgres.hashing import Column, Table

CLIP_BYTES = 65_536
"""A longer value is told by its beginning, its length and its digest."""

LIMIT_BYTES = 64 * 1024 * 1024
"""Of all values of one table and side; roughly, since it is looked at by the batch."""

_BATCH = 32
_SHOWN = 1_000

Told = dict[bytes, Row]
"""Digest of a row to its values."""


def rows(
    connection: Connection,
    table: Table,
    wanted: Sequence[bytes],
    *,
    batched: bool = True,
    limit_bytes: int = LIMIT_BYTES,
) -> tuple[Told, bool]:
    """Return the rows that have one of some digests; of equals, one.

    Args:
        connection: The grader's.
        table: What to read.
        wanted: As `hashing.digests` has them.
        batched: Whether many rows come by the batch, which takes a transaction: not
            for a connection that threads share.
        limit_bytes: Of all values, about.

    Returns:
        The rows, and whether that is all of them.
    """
    query = sql.SQL(
        "SELECT DISTINCT ON (d) d, told FROM "
        "(SELECT {} AS d, {} AS told FROM {} WHERE {} = ANY (%s)) AS rows"
    ).format(table.digest, _values(table), table.source, table.digest)
    batched = batched and len(wanted) > _BATCH
    found = _batches(connection, query, list(wanted), batched=batched)
    return _read(table, found, limit_bytes)


def strangers(
    connection: Connection, table: Table, known: Sequence[bytes], *, limit: int
) -> Told:
    """Return the first rows that have none of some digests; of equals, one.

    The server stops once it has found so many: the rest is not even read.
    """
    query = sql.SQL(
        "SELECT {} AS d, {} AS told FROM {} WHERE {} <> ALL (%s) LIMIT {}"
    ).format(table.digest, _values(table), table.source, table.digest, limit)
    found = _batches(connection, query, list(known), batched=True)
    return _read(table, found, LIMIT_BYTES)[0]


def _read(
    table: Table, found: Iterable[tuple[object, ...]], limit_bytes: int
) -> tuple[Told, bool]:
    names = [column.name for column in table.columns]
    told: Told = {}
    size = 0
    for digest, texts in found:
        values = cast("list[str | None]", texts)
        told[cast("bytes", digest)] = dict(zip(names, values, strict=True))
        size += sum(len(value) for value in values if value is not None)
        if size > limit_bytes:
            return told, False
    return told, True


def _batches(
    connection: Connection, query: sql.Composed, among: list[bytes], *, batched: bool
) -> Iterator[tuple[object, ...]]:
    if not batched:
        yield from connection.execute(query, [among])
        return
    with connection.transaction(), connection.cursor(name="rlvr_told") as cursor:
        cursor.itersize = _BATCH
        cursor.execute(query, [among])
        yield from cursor


def _values(table: Table) -> sql.Composed:
    """Return an expression: a row's values as the server prints them, clipped."""
    return sql.SQL("ARRAY[{}]::text[]").format(
        sql.SQL(", ").join(map(_clipped, table.columns))
    )


def _clipped(column: Column) -> sql.Composed:
    name = sql.Identifier(column.name)
    text = sql.SQL("{}::text").format(name)
    if column.type == "bytea":
        begins = sql.SQL("substr({}, 1, {})::text").format(name, _SHOWN)
        length, data = sql.SQL("octet_length({})").format(name), sql.Composed([name])
    else:
        begins = sql.SQL("left({}, {})").format(text, _SHOWN)
        length = sql.SQL("octet_length({})").format(text)
        data = sql.SQL("convert_to({}, 'UTF8')").format(text)
    return sql.SQL(
        "CASE WHEN {length} > {most} THEN {begins} || '[... ' || {length} || "
        "' bytes, sha256 ' || encode(sha256({data}), 'hex') || ']' ELSE {text} END"
    ).format(length=length, most=CLIP_BYTES, begins=begins, data=data, text=text)
