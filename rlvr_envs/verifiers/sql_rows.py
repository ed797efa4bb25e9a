"""Which rows an episode changed, by table, key, column and value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from typing_extensions import override

from rlvr_envs.records import JsonObject
from rlvr_envs.relational import RowChange, RowKind
from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers import typed
from rlvr_envs.verifiers.content import HIDDEN
from rlvr_envs.verifiers.database import SHOWN, facts_of
from rlvr_envs.verifiers.ingest import shown
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

_VALUES = {
    "anyOf": [{"type": "object", "additionalProperties": typed.VALUE}, HIDDEN],
}
_TABLE = {"type": "string", "pattern": r"^[^.]+\.[^.]+$"}
_ROW = {
    "type": "object",
    "properties": {
        "table": _TABLE,
        "kind": {"enum": ["insert", "update", "delete"]},
        "key": _VALUES,
        "set": _VALUES,
        "free": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "optional": {"type": "boolean"},
    },
    "required": ["table", "kind"],
    "additionalProperties": False,
}


class SqlRows(Verifier):
    """Holds the rows that differ from the template against those that must.

    Options: ``rows``, each with ``table`` (schema and name), ``kind`` (insert,
    update, delete), ``key`` (columns that say which row), ``set`` (columns that it
    must have got; of an update no others may differ but those in ``free``; of an
    insert those not named are free), ``optional`` (may, not must); and ``besides``:
    tables that are not this check's business. Any other row that differs is
    collateral. ``rows`` as a whole, or any value, may be ``{hidden: key}``.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "rows": {"anyOf": [{"type": "array", "items": _ROW}, HIDDEN]},
            "besides": {"type": "array", "items": _TABLE, "uniqueItems": True},
        },
        "required": ["rows"],
        "additionalProperties": False,
    }

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        besides = self.options.get("besides", ())
        diff = facts_of(frozen).diff
        left = [change for change in diff.rows if change.table not in besides]
        wanted = [_wanted(row) for row in context.plain(self.options["rows"])]
        problems = _matched(wanted, left)
        about = [change for change in left if any(w.names(change) for w in wanted)]
        extra = sorted({shown(c.path) for c in left if c not in about})
        if extra:
            problems.append(f"{extra[0]} changed, which nobody asked for")
        if not diff.complete:
            problems.append("more rows differ than are read")
        reason = "; ".join(problems[:3])
        return Findings((self.check(reason),), collateral=tuple(extra[:SHOWN]))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One row of the option."""

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


def _wanted(row: Any) -> _Wanted:
    fields = {**row, "kind": RowKind(row["kind"]), "free": tuple(row.get("free", ()))}
    return _Wanted(**fields)


def _agree(
    row: Mapping[str, str | None], wanted: Mapping[str, Any], *only: str
) -> bool:
    return all(
        name in row and typed.text_agrees(row[name], wanted[name])
        for name in (only or wanted)
    )


def _matched(wanted: Sequence[_Wanted], left: list[RowChange]) -> list[str]:
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
