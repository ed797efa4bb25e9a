"""How a clone differs from its template: rows and definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rlvr_envs.relational import (
    CatalogueEntry,
    DatabaseDiff,
    Row,
    RowChange,
    RowKind,
)
from rlvr_envs.sandbox.postgres.catalogue import catalogue, compare
from rlvr_envs.sandbox.postgres.cluster import Connection
from rlvr_envs.sandbox.postgres.hashing import (
    Table,
    digests,
    fingerprints,
    rows,
    tables,
)
from rlvr_envs.sandbox.postgres.templates import Baseline

LIMIT_ROWS = 10_000
"""How many differing rows of one table are read on each side."""


def diff(
    connection: Connection,
    baseline: Baseline,
    *,
    expected: Iterable[CatalogueEntry] = (),
    found: Iterable[CatalogueEntry] = (),
    limit_rows: int = LIMIT_ROWS,
) -> DatabaseDiff:
    """Compare a clone that nobody writes to any more with its template.

    Definitions come first: rows are read only of tables that are still the same
    relation with the same columns.

    Args:
        connection: The grader's, in the clone.
        baseline: The template's.
        expected: What else was defined at the start (the role's settings, say).
        found: The same at the end.
        limit_rows: Of each table and side; beyond it the result is incomplete.
    """
    definitions = compare(
        (*baseline.catalogue, *expected), (*catalogue(connection), *found)
    )
    now = set(tables(connection))
    same = [table for table in baseline.tables if table in now]
    unread = {table.title for table in baseline.tables} - {t.title for t in same}
    totals = fingerprints(connection, same)
    written: list[RowChange] = []
    complete = True
    for table in same:
        if totals[table.title] != baseline.fingerprints[table.title]:
            old, new, all_of_it = _differing(connection, baseline, table, limit_rows)
            written += _paired(table, old, new)
            complete = complete and all_of_it
    return DatabaseDiff(tuple(written), definitions, tuple(sorted(unread)), complete)


def _differing(
    connection: Connection, baseline: Baseline, table: Table, limit_rows: int
) -> tuple[list[Row], list[Row], bool]:
    before = Counter(digests(baseline.connection, table))
    after = Counter(digests(connection, table))
    gone = sorted((before - after).elements())
    come = sorted((after - before).elements())
    complete = max(len(gone), len(come)) <= limit_rows
    gone, come = gone[:limit_rows], come[:limit_rows]
    old = rows(baseline.connection, table, gone)
    new = rows(connection, table, come)
    return [old[digest] for digest in gone], [new[digest] for digest in come], complete


def _paired(table: Table, old: list[Row], new: list[Row]) -> Iterator[RowChange]:
    """Yield updates of rows whose key stayed, then what is left of both sides."""
    arrived = {_key(table, row): row for row in new} if table.key else {}
    paired = set()
    for row in old:
        key = _key(table, row)
        if key in arrived:
            paired.add(key)
            yield RowChange(
                table.title, RowKind.UPDATE, row, arrived[key], key=table.key
            )
        else:
            yield RowChange(table.title, RowKind.DELETE, old=row, key=table.key)
    for row in new:
        if not table.key or _key(table, row) not in paired:
            yield RowChange(table.title, RowKind.INSERT, new=row, key=table.key)


def _key(table: Table, row: Row) -> tuple[str | None, ...]:
    return tuple(row[name] for name in table.key)
