"""Words for generators of databases: inserts, and what must differ at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Cell = int | str | Decimal | None
Rows = Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a seed makes.

    Attributes:
        name: With its schema.
        columns: In order, each cell of a row for one of them.
        key: How many of them, from the first, are the primary key.
    """

    name: str
    columns: tuple[str, ...]
    key: int = 1

    def inserts(self, rows: Rows) -> str:
        """Return the statement that puts rows in; nothing for no rows."""
        if not rows:
            return ""
        values = ",\n".join(f"({', '.join(map(literal, row))})" for row in rows)
        return (
            f"INSERT INTO {self.name} ({', '.join(self.columns)}) VALUES\n{values};\n"
        )

    def differences(self, before: Rows, after: Rows) -> list[dict[str, Any]]:
        """Return how rows must have changed, as the check ``sql_rows`` reads it.

        An update names the columns that differ, an insert every one.
        """
        return list(self._differences(self._by_key(before), self._by_key(after)))

    def _by_key(self, rows: Rows) -> dict[tuple[Cell, ...], Sequence[Cell]]:
        found = {tuple(row[: self.key]): row for row in rows}
        if len(found) != len(rows):
            raise ValueError(f"Two rows of {self.name} have the same key.")
        return found

    def _differences(
        self,
        before: Mapping[tuple[Cell, ...], Sequence[Cell]],
        after: Mapping[tuple[Cell, ...], Sequence[Cell]],
    ) -> Iterator[dict[str, Any]]:
        for key in sorted({*before, *after}, key=str):
            old, new = before.get(key), after.get(key)
            if old == new:
                continue
            kind = "insert" if old is None else "delete" if new is None else "update"
            named = {
                name: plain(cell) for name, cell in zip(self.columns, key, strict=False)
            }
            row = {"table": self.name, "kind": kind, "key": named}
            yield {**row, "set": self._changed(old, new)} if new else row

    def _changed(
        self, old: Sequence[Cell] | None, new: Sequence[Cell]
    ) -> dict[str, Any]:
        return {
            name: plain(new[place])
            for place, name in enumerate(self.columns)
            if place >= self.key and (old is None or old[place] != new[place])
        }


def literal(cell: Cell) -> str:
    """Return a value as SQL; standard strings, so that a backslash is itself."""
    if cell is None:
        return "NULL"
    if isinstance(cell, str):
        return "'" + cell.replace("'", "''") + "'"
    if isinstance(cell, Decimal):
        return "'NaN'::numeric" if cell.is_nan() else f"{cell:f}"
    return str(cell)


def plain(cell: Cell) -> Any:
    """Return a value as plain JSON that a typed check compares exactly."""
    return {"decimal": str(cell)} if isinstance(cell, Decimal) else cell
