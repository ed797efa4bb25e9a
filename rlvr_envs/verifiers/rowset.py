"""Which rows must and may have changed, held against those that did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlvr_envs.relational import DatabaseDiff, RowChange, RowKind
from rlvr_envs.verifiers import typed
from rlvr_envs.verifiers.content import HIDDEN
from rlvr_envs.verifiers.ingest import shown

VALUES: dict[str, Any] = {
    "anyOf": [{"type": "object", "additionalProperties": typed.VALUE}, HIDDEN],
}
TABLE: dict[str, Any] = {"type": "string", "pattern": r"^[^.]+\.[^.]+$"}
BESIDES: dict[str, Any] = {"type": "array", "items": TABLE, "uniqueItems": True}
"""Tables that are not a check's business."""

ROW: dict[str, Any] = {
    "type": "object",
    "properties": {
        "table": TABLE,
        "kind": {"enum": ["insert", "update", "delete"]},
        "key": VALUES,
        "set": VALUES,
        "free": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "optional": {"type": "boolean"},
    },
    "required": ["table", "kind"],
    "additionalProperties": False,
}
"""JSON Schema of one row: see `Wanted`."""

ROWS: dict[str, Any] = {"anyOf": [{"type": "array", "items": ROW}, HIDDEN]}


@dataclass(frozen=True, slots=True)
class Matched:
    """What came of it.

    Attributes:
        problems: What is lacking or wrong, in words; empty if nothing is.
        extra: Paths of rows that nobody asked for, sorted.
    """

    problems: tuple[str, ...]
    extra: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The first few problems, extra rows included; empty if all is as asked."""
        told = [f"{path} changed, which nobody asked for" for path in self.extra[:1]]
        return "; ".join([*self.problems[:3], *told])


def match(rows: Sequence[Any], diff: DatabaseDiff, besides: Sequence[str]) -> Matched:
    """Hold the rows of a difference against those that are wanted.

    A wanted row with a wrong value is a problem, and no extra row.
    """
    wanted = [wanted_row(row) for row in rows]
    left = [change for change in diff.rows if change.table not in besides]
    problems = _taken(wanted, left)
    if not diff.complete:
        problems.append(diff.cut)
    strange = [c for c in left if not any(row.names(c) for row in wanted)]
    return Matched(tuple(problems), tuple(sorted({shown(c.path) for c in strange})))


@dataclass(frozen=True, slots=True)
class Wanted:
    """One row that must or may have changed.

    Attributes:
        key: Columns that say which row.
        set: Columns that it must have got. Of an update no others may differ but
            those in `free`; of an insert those not named are free.
        optional: It may have changed so, or not at all.
    """

    table: str
    kind: RowKind
    key: Mapping[str, Any] = field(default_factory=dict)
    set: Mapping[str, Any] = field(default_factory=dict)
    free: tuple[str, ...] = ()
    optional: bool = False

    def names(self, change: RowChange) -> bool:
        """Return whether a change is of the row that this one speaks of."""
        if self.table != change.table or not self.key:
            return False
        return _agree(change.new or change.old, self.key)

    def flaw(self, change: RowChange) -> str:
        """Return how a change is not the wanted one; empty if it is."""
        row = change.new or change.old
        if change.table != self.table or not _agree(row, self.key):
            return "it is missing"
        if change.kind is not self.kind:
            return f"it is an {change.kind}"
        wrong = [name for name in self.set if not _agree(row, self.set, name)]
        wrong += self._others(change)
        return f"{wrong[0]} differs" if wrong else ""

    def label(self) -> str:
        """Return how reasons name it."""
        return f"{self.kind} of {self.table} {_said(self.key)}".strip()

    def _others(self, change: RowChange) -> Iterator[str]:
        if change.kind is not RowKind.UPDATE:
            return
        told = {*self.set, *self.free}
        for name, value in change.new.items():
            if name not in told and value != change.old.get(name):
                yield name


def _said(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.items())


def wanted_row(row: Any) -> Wanted:
    """Read a row of an option, its hidden values replaced already."""
    fields = {**row, "kind": RowKind(row["kind"]), "free": tuple(row.get("free", ()))}
    return Wanted(**fields)


def _agree(
    row: Mapping[str, str | None], wanted: Mapping[str, Any], *only: str
) -> bool:
    return all(
        name in row and typed.text_agrees(row[name], wanted[name])
        for name in (only or wanted)
    )


def _taken(wanted: Sequence[Wanted], left: list[RowChange]) -> list[str]:
    """Take each wanted change out of what is left; return what is lacking.

    The most particular come first, so that a vague one does not take their row.
    """
    problems = []
    for row in sorted(wanted, key=lambda item: -len(item.key) - len(item.set)):
        place = next((n for n, c in enumerate(left) if not row.flaw(c)), None)
        if place is not None:
            del left[place]
        elif near := [change for change in left if row.names(change)]:
            problems.append(f"{row.label()}: {row.flaw(near[0])}")
        elif not row.optional:
            problems.append(f"{row.label()}: it is missing")
    return problems
