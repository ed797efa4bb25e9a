"""What is told of a clone calls it the same in every run.

Its database and its agent's role have a name that no two clones share; a definition, a
default or a value can carry it.
"""

from __future__ import annotations

from dataclasses import replace

from rlvr_envs.relational import (
    CatalogueChange,
    DatabaseDiff,
    DdlEvent,
    Ledger,
    Row,
    RowChange,
)

SHOWN_NAME = "agent"
"""What the names of the episode's database and role, which differ, are shown as."""


def shown(text: str, name: str) -> str:
    """Return a text with a clone's name replaced."""
    return text.replace(name, SHOWN_NAME)


def shown_definition(made: CatalogueChange, name: str) -> CatalogueChange:
    """Return what happened to a definition, likewise."""
    return replace(
        made,
        name=shown(made.name, name),
        old=shown(made.old, name),
        new=shown(made.new, name),
    )


def shown_diff(found: DatabaseDiff, name: str) -> DatabaseDiff:
    """Return what differs, likewise."""
    rows = [_change(row, name) for row in found.rows]
    if any(new is not old for new, old in zip(rows, found.rows, strict=True)):
        # They come in the order of their digests, which the name went into.
        rows.sort(key=lambda change: change.path)
    definitions = tuple(shown_definition(made, name) for made in found.catalogue)
    return replace(found, rows=tuple(rows), catalogue=definitions)


def shown_ledger(found: Ledger, name: str) -> Ledger:
    """Return what was written, likewise."""
    changes = tuple(_change(row, name) for row in found.changes)
    return replace(
        found, changes=changes, ddl=tuple(_event(e, name) for e in found.ddl)
    )


def _event(event: DdlEvent, name: str) -> DdlEvent:
    objects = (
        replace(made, identity=shown(made.identity, name)) for made in event.objects
    )
    return replace(event, objects=tuple(objects))


def _change(change: RowChange, name: str) -> RowChange:
    old, new = _row(change.old, name), _row(change.new, name)
    if old is change.old and new is change.new:
        return change
    return replace(change, old=old, new=new)


def _row(row: Row, name: str) -> Row:
    if not any(value is not None and name in value for value in row.values()):
        return row
    return {
        column: None if value is None else shown(value, name)
        for column, value in row.items()
    }
