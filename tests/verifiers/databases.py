"""Database episodes as a harness would tell of them, and a grader's queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psycopg import errors
from psycopg.rows import dict_row

from rlvr_envs.records import (
    Outcome,
    Snapshot,
    ToolCall,
    ToolCategory,
    Verification,
)
from rlvr_envs.relational import (
    Called,
    DatabaseDiff,
    DatabaseFacts,
    HttpExchange,
    Ledger,
    RowChange,
    RowKind,
)
from rlvr_envs.sandbox.postgres.clone import Clone
from rlvr_envs.state import FrozenState, QueryResult
from rlvr_envs.verifiers import Judge
from tests.verifiers.builders import ToyRunner, instance, verification

KEYS: Mapping[str, tuple[str, ...]] = {"public.notes": ()}


@dataclass
class ToyQueries(ToyRunner):
    """Answers a query with what it was given."""

    answer: QueryResult = field(default_factory=QueryResult)
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def query(self, statement: str, values: Mapping[str, Any]) -> QueryResult:
        self.asked.append((statement, values))
        return self.answer


@dataclass
class GraderQueries(ToyRunner):
    """Asks a real clone as its grader does."""

    clone: Clone | None = None

    def query(self, statement: str, values: Mapping[str, Any]) -> QueryResult:
        assert self.clone is not None
        grader = self.clone.grader()
        cursor = grader.cursor(row_factory=dict_row)
        try:
            found = cursor.execute(statement.encode(), dict(values)).fetchall()
        except errors.Error as error:
            return QueryResult(problem=str(error))
        return QueryResult(tuple(found))


def rows(*found: Mapping[str, Any]) -> ToyQueries:
    """Return a runner whose queries find these rows."""
    return ToyQueries(answer=QueryResult(found))


def update(table: str, before: Mapping[str, Any], **after: Any) -> RowChange:
    new = {**before, **after}
    return RowChange(
        table, RowKind.UPDATE, before, new, key=KEYS.get(table, ("id",)), turn=1
    )


def insert(table: str, **row: Any) -> RowChange:
    return RowChange(
        table, RowKind.INSERT, new=row, key=KEYS.get(table, ("id",)), turn=1
    )


def delete(table: str, **row: Any) -> RowChange:
    return RowChange(table, RowKind.DELETE, old=row, key=KEYS.get(table, ("id",)))


def called(
    name: str = "sql",
    *,
    turn: int = 1,
    state: str = "",
    message: str = "",
    category: ToolCategory = ToolCategory.MUTATE,
    **arguments: Any,
) -> Called:
    call = ToolCall(name, arguments)
    return Called(turn, call, category, ok=not state, state=state, message=message)


def exchange(
    method: str,
    path: str,
    operation: str = "",
    *,
    status: int = 200,
    turn: int = 1,
    **fields: Any,
) -> HttpExchange:
    given = {"reads": method == "GET", "parameters": {}, "answer": None, **fields}
    return HttpExchange(turn, method, path, operation, status=status, **given)


def facts(*changed: RowChange, **fields: Any) -> DatabaseFacts:
    given = {
        "diff": DatabaseDiff(changed),
        "ledger": Ledger(changed),
        "times_s": (0.0, 60.0),
        **fields,
    }
    return DatabaseFacts(**given)


def state(found: DatabaseFacts) -> FrozenState:
    return FrozenState(Path("/nowhere"), Snapshot(()), facts={"database": found})


def facts_of_clone(clone: Clone, *calls: Called) -> DatabaseFacts:
    """Freeze a real clone and read it as a world does."""
    clone.freeze()
    return DatabaseFacts(
        clone.diff(), clone.ledger(), calls=calls, overruns=clone.overruns
    )


def judged(
    folder: Path,
    found: DatabaseFacts,
    *,
    runner: Any = None,
    judge: Judge | None = None,
    hidden: Mapping[str, Any] | None = None,
    fixtures: Mapping[str, str] | None = None,
    **fields: Any,
) -> Outcome:
    """Judge a database episode with everything as it should be."""
    given: Verification = verification(
        **{"mode": "database", "artifacts": (), "writes": (), **fields}
    )
    played = instance(folder / "task", given, hidden=hidden, fixtures=fixtures)
    return (judge or Judge(staging=folder / "staging")).judge(
        state(found), played, runner or ToyQueries()
    )
