"""Rows and definitions that differ, as the changes that every modality speaks of."""

from __future__ import annotations

from collections.abc import Iterator

from rlvr_envs.records import Verification
from rlvr_envs.relational import CatalogueChange, DatabaseDiff, RowKind
from rlvr_envs.state import Change, StateDiff
from rlvr_envs.verifiers.database import undeclared

_KINDS = {
    RowKind.INSERT: "added",
    RowKind.UPDATE: "modified",
    RowKind.DELETE: "removed",
    RowKind.TRUNCATE: "removed",
}
ROWS = "rows"
"""The fact that maps a changed row's path to its values; a row that is gone has none."""

ROWS_MAX = 64


def changes_of(diff: DatabaseDiff) -> tuple[Change, ...]:
    """Return what differs, sorted by path."""
    return tuple(sorted(_changes(diff), key=lambda change: change.path))


def state_diff(diff: DatabaseDiff, verification: Verification) -> StateDiff:
    """Return the same for a potential, with the values of the first 64 rows."""
    changes = changes_of(diff)
    rows = {change.path: dict(change.new) for change in diff.rows[:ROWS_MAX]}
    return StateDiff(changes, undeclared(diff, verification.writes), {ROWS: rows})


def _changes(diff: DatabaseDiff) -> Iterator[Change]:
    for row in diff.rows:
        yield Change(row.path, _KINDS[row.kind], "row")
    for item in diff.catalogue:
        yield Change(item.path, _verb(item), item.path.split("/")[2])


def _verb(item: CatalogueChange) -> str:
    if not item.old:
        return "added"
    return "modified" if item.new else "removed"
