"""How a clone differs from its template: rows and definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg import errors

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
    DIGEST_BYTES,
    Table,
    apart,
    count,
    digests,
    fingerprints,
    sizes,
    tables,
)
from rlvr_envs.sandbox.postgres.telling import rows, strangers
from rlvr_envs.sandbox.postgres.templates import Baseline

LIMIT_ROWS = 10_000
"""How many differing rows of one table are read on each side."""

GROWN_BYTES = 8 * 1024 * 1024
"""A table that grew by more has its rows counted before they are digested."""

LIMIT_S = 20.0
"""How long reading one table may take, where the template's own rows took no time."""

_SLOWER = 10.0

# What an agent can leave that the server itself cannot print, or not in time.
_TOO_MUCH = (
    errors.QueryCanceled,
    errors.ProgramLimitExceeded,
    errors.OutOfMemory,
    errors.InternalError_,
    psycopg.DataError,
)


@dataclass(slots=True)
class _Seen:
    """What differs so far.

    Attributes:
        more: Table to how many rows at least differ beside those that are told.
    """

    rows: list[RowChange] = field(default_factory=list)
    more: dict[str, int] = field(default_factory=dict)


def diff(
    connection: Connection,
    baseline: Baseline,
    *,
    expected: Iterable[CatalogueEntry] = (),
    found: Iterable[CatalogueEntry] = (),
    limit_rows: int = LIMIT_ROWS,
    limit_s: float = LIMIT_S,
) -> DatabaseDiff:
    """Compare a clone that nobody writes to any more with its template.

    Definitions come first: rows are read only of tables that are still the same
    relation with the same columns. What an agent fills a table with costs no more
    than the template's own rows and the limit: the rest is counted.

    Args:
        connection: The grader's, in the clone.
        baseline: The template's.
        expected: What else was defined at the start (the role's settings, say).
        found: The same at the end.
        limit_rows: Of each table and side; beyond it the result is incomplete.
        limit_s: Of one statement, beyond ten times what all of the template took;
            likewise.
    """
    definitions = compare(
        (*baseline.catalogue, *expected), (*catalogue(connection), *found)
    )
    now = set(tables(connection))
    same = [table for table in baseline.tables if table in now]
    unread = {table.title for table in baseline.tables} - {t.title for t in same}
    work = _Work(connection, baseline, limit_rows, limit_s)
    seen = work.differing(same)
    return DatabaseDiff(
        tuple(seen.rows),
        definitions,
        tuple(sorted(unread)),
        complete=not seen.more,
        more=seen.more,
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """Comparing tables that are the same relation on both sides."""

    connection: Connection
    baseline: Baseline
    limit_rows: int
    limit_s: float

    def differing(self, same: Sequence[Table]) -> _Seen:
        """Compare all at once, and one by one where that is too much."""
        now = sizes(self.connection, same)
        base = self.baseline.sizes
        careful = [t for t in same if now[t.title] - base[t.title] > GROWN_BYTES]
        seen = _Seen()
        try:
            with self._limited():
                for table in self._changed([t for t in same if t not in careful]):
                    self._compare(table, seen)
        except _TOO_MUCH:
            careful, seen = list(same), _Seen()
        for table in careful:
            self._compare_grown(table, seen)
        return seen

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Bound each statement by what all of the template took, and then some."""
        limit_s = self.limit_s + _SLOWER * self.baseline.took_s
        limit = f"SET LOCAL statement_timeout = {max(1, int(limit_s * 1000))}"
        with self.connection.transaction():
            self.connection.execute(limit.encode())
            yield

    def _changed(self, among: Sequence[Table]) -> list[Table]:
        totals = fingerprints(self.connection, among)
        known = self.baseline.fingerprints
        return [table for table in among if totals[table.title] != known[table.title]]

    def _compare_grown(self, table: Table, seen: _Seen) -> None:
        try:
            with self._limited():
                before = digests(self.baseline.connection, table)
                known = len(before) // DIGEST_BYTES
                surplus = count(self.connection, table) - known
                if surplus > self.limit_rows:
                    self._tell_strangers(table, before, surplus, seen)
                elif self._changed([table]):
                    self._compare(table, seen)
        except _TOO_MUCH:
            seen.more[table.title] = 1

    def _tell_strangers(
        self, table: Table, before: bytes, surplus: int, seen: _Seen
    ) -> None:
        known = [
            before[at : at + DIGEST_BYTES] for at in range(0, len(before), DIGEST_BYTES)
        ]
        come = strangers(self.connection, table, known, limit=self.limit_rows)
        seen.rows += _paired(table, [], list(come.values()))
        seen.more[table.title] = surplus - len(come)

    def _compare(self, table: Table, seen: _Seen) -> None:
        gone, come, complete = apart(
            digests(self.baseline.connection, table),
            digests(self.connection, table),
            limit=self.limit_rows,
        )
        old, all_old = rows(self.baseline.connection, table, gone, batched=False)
        new, all_new = rows(self.connection, table, come)
        seen.rows += _paired(table, _of(old, gone), _of(new, come))
        if not (complete and all_old and all_new):
            seen.more[table.title] = 1


def _of(told: Mapping[bytes, Row], wanted: Iterable[bytes]) -> list[Row]:
    return [told[digest] for digest in wanted if digest in told]


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
