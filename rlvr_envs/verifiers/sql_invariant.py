"""What a statement of the task's own finds in the final database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from rlvr_envs.errors import VerifierError
from rlvr_envs.records import JsonObject
from rlvr_envs.state import FrozenState, Queries, QueryResult
from rlvr_envs.verifiers import qualified, typed
from rlvr_envs.verifiers.content import HIDDEN
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

_ROW = {
    "anyOf": [
        {"type": "array", "items": typed.VALUE, "minItems": 1},
        {"type": "object", "additionalProperties": typed.VALUE, "minProperties": 1},
        HIDDEN,
    ]
}


class SqlInvariant(Verifier):
    """Runs one reading statement as the grader's own role, and compares.

    Options: ``statement`` (every relation with its schema; a value stands as
    ``%(name)s``), ``values`` by name, and ``expect``: ``scalar`` (one row of one
    column), ``rows`` (lists by place, or mappings by column; in any order unless
    ``in_order``) or ``empty: true``. Values may be ``{hidden: key}``; how they are
    compared: see `typed`. ``new_objects: true`` says that the statement reads what
    the episode must make, so that on the untouched database it fails: then any
    failure is a failed check.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "statement": {"type": "string", "minLength": 1},
            "values": {"type": "object", "additionalProperties": typed.VALUE},
            "expect": {
                "type": "object",
                "properties": {
                    "scalar": typed.VALUE,
                    "rows": {
                        "anyOf": [
                            {"type": "array", "items": _ROW, "minItems": 1},
                            HIDDEN,
                        ]
                    },
                    "empty": {"const": True},
                },
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": False,
            },
            "in_order": {"type": "boolean"},
            "new_objects": {"type": "boolean"},
        },
        "required": ["statement", "expect"],
        "additionalProperties": False,
    }

    @override
    @classmethod
    def flaw(cls, options: JsonObject) -> str:
        return qualified.flaw(options["statement"], options.get("values", {}))

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        values = {
            name: context.value(value)
            for name, value in self.options.get("values", {}).items()
        }
        found = self._found(queries(context), values)
        return Findings((self.check(self._problem(found, context)),))

    def _found(self, runner: Queries, values: Mapping[str, Any]) -> QueryResult:
        try:
            return runner.query(self.options["statement"], values)
        except VerifierError as error:
            if not self.options.get("new_objects", False):
                raise
            return QueryResult(problem=str(error))

    def _problem(self, found: QueryResult, context: Context) -> str:
        if found.problem:
            return f"the statement did not run: {found.problem}"
        ((form, wanted),) = self.options["expect"].items()
        if form == "empty":
            return f"{len(found.rows)} rows where none may be" if found.rows else ""
        if form == "scalar":
            return _scalar(found.rows, context.plain(wanted))
        rows = context.plain(wanted)
        in_order = bool(self.options.get("in_order", False))
        return _ordered(found.rows, rows) if in_order else _any_order(found.rows, rows)


def queries(context: Context) -> Queries:
    """Return the runner as one that reads the final database.

    Raises:
        VerifierError: If it cannot.
    """
    if not isinstance(context.runner, Queries):
        raise VerifierError("The runner of this environment reads no database.")
    return context.runner


def _scalar(found: Sequence[Mapping[str, Any]], wanted: Any) -> str:
    if len(found) != 1 or len(found[0]) != 1:
        return f"{len(found)} rows, not one of one column"
    ((column, value),) = found[0].items()
    return "" if typed.agrees(value, wanted) else f"{column} differs"


def _ordered(found: Sequence[Mapping[str, Any]], wanted: Sequence[Any]) -> str:
    if len(found) != len(wanted):
        return f"{len(found)} rows, not {len(wanted)}"
    pairs = zip(found, wanted, strict=True)
    wrong = [n for n, pair in enumerate(pairs, start=1) if not _row_agrees(*pair)]
    return f"row {wrong[0]} differs" if wrong else ""


def _any_order(found: Sequence[Mapping[str, Any]], wanted: Sequence[Any]) -> str:
    """Rows are whole, so that equal wanted rows fit equal found rows: greedy is exact."""
    if len(found) != len(wanted):
        return f"{len(found)} rows, not {len(wanted)}"
    left = list(found)
    for number, row in enumerate(wanted, start=1):
        place = next((n for n, item in enumerate(left) if _row_agrees(item, row)), None)
        if place is None:
            return f"no row is the wanted one, number {number}"
        del left[place]
    return ""


def _row_agrees(found: Mapping[str, Any], wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return found.keys() == wanted.keys() and all(
            typed.agrees(found[name], value) for name, value in wanted.items()
        )
    values = list(found.values())
    return len(values) == len(wanted) and all(map(typed.agrees, values, wanted))
