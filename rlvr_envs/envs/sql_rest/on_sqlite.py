"""A world's database in a file of SQLite's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from psycopg.pq import TransactionStatus
from typing_extensions import override

from rlvr_envs.envs.sql_rest.grading import ROWS_MAX, NoCommands
from rlvr_envs.envs.sql_rest.session import Channel, Session
from rlvr_envs.envs.sql_rest.spec import Build, WorldSpec
from rlvr_envs.envs.sql_rest.wire import Answer, SqlError
from rlvr_envs.errors import SandboxError, VerifierError
from rlvr_envs.sandbox.postgres.cluster import Connection
from rlvr_envs.sandbox.sqlite import sharing
from rlvr_envs.sandbox.sqlite.clone import Access, Bounds, Clone
from rlvr_envs.sandbox.sqlite.seeds import Seed
from rlvr_envs.sandbox.sqlite.shelf import SHARED_MEMORY
from rlvr_envs.state import QueryResult, Runner

_SHORTEST_S = 0.01
_QUERY = Bounds(seconds=20.0, rows=ROWS_MAX + 1)

_COLUMNS = """
SELECT 'main.' || m.name AS relation, m.type AS kind, c.name AS "column",
  lower(c.type) AS type, CASE WHEN c."notnull" THEN 'not null' END AS nullable,
  c.dflt_value AS "default"
FROM main.sqlite_schema AS m JOIN pragma_table_xinfo(m.name, 'main') AS c
WHERE m.type IN ('table', 'view') AND substr(m.name, 1, 7) <> 'sqlite_'
ORDER BY m.name, c.cid
"""
_CONSTRAINTS = """
SELECT 'main.' || tbl_name AS relation, type AS kind, sql AS definition
FROM main.sqlite_schema WHERE sql IS NOT NULL AND substr(name, 1, 7) <> 'sqlite_'
ORDER BY tbl_name, type DESC, name
"""


class SqliteEngine:
    """See `engine.Engine`.

    Raises:
        WorldError: If no copy is to be had.
    """

    def __init__(self, build: Build, spec: WorldSpec) -> None:
        seed = Seed(build.instance.recipe.database, build.instance.task.epoch_s)
        self.digest = seed.digest
        self.clone = sharing.lease(
            seed,
            Access(spec.rights, spec.define),
            folder=build.folder or SHARED_MEMORY,
            pool_size=build.pool_size,
        )

    def lasting(self, *, step_timeout_s: float) -> Session:
        """Open a session with the agent's rights."""
        return SqliteSession(self.clone, lasting=True, step_timeout_s=step_timeout_s)

    def looking(self, *, step_timeout_s: float) -> Session:
        """Open one on a connection that cannot write."""
        return SqliteSession(self.clone, lasting=False, step_timeout_s=step_timeout_s)

    def party(self) -> Connection:
        """Refuse: a file of SQLite's has one writer.

        Raises:
            SandboxError: Always.
        """
        raise SandboxError("A task on SQLite has no other party that writes.")

    def queries(self) -> Runner:
        """Return what asks the grader's process."""
        return SqliteQueries(self.clone)


class SqliteSession(Session):
    """A session in the agent's process.

    Args:
        clone: It outlives the session.
        lasting: Whether transactions last from call to call; otherwise it looks.
        step_timeout_s: See `Session`.
        limit_rows: See `Session`.
        limit_bytes: See `Session`.
    """

    columns = _COLUMNS
    constraints = _CONSTRAINTS

    def __init__(
        self,
        clone: Clone,
        *,
        lasting: bool,
        step_timeout_s: float = 30.0,
        limit_rows: int = 200,
        limit_bytes: int = 32_768,
    ) -> None:
        self._clone = clone
        self._lasting = lasting
        super().__init__(
            step_timeout_s=step_timeout_s,
            limit_rows=limit_rows,
            limit_bytes=limit_bytes,
        )

    @override
    def _open(self) -> Channel:
        bounds = Bounds(rows=self._limit_rows, size=self._limit_bytes)
        return SqliteChannel(self._clone, bounds, lasting=self._lasting)


class SqliteChannel:
    """Sends statements to the agent's process.

    Args:
        clone: It starts another process where one was lost.
        bounds: Of one answer; the time is each statement's own.
        lasting: See `SqliteSession`.
    """

    def __init__(self, clone: Clone, bounds: Bounds, *, lasting: bool) -> None:
        self._clone = clone
        self._bounds = bounds
        self._lasting = lasting

    @property
    def transaction(self) -> TransactionStatus:
        """Whether a transaction is open; the engine ends one that fails."""
        is_open = self._lasting and self._clone.open
        return TransactionStatus.INTRANS if is_open else TransactionStatus.IDLE

    def run(self, statement: bytes, deadline: float) -> Answer:
        """Run one statement; see `Clone.run`."""
        seconds = max(_SHORTEST_S, deadline - time.monotonic())
        bounds = Bounds(seconds, self._bounds.rows, self._bounds.size)
        return _answer(
            self._clone.run(statement.decode(), bounds, lasting=self._lasting)
        )


class SqliteQueries(NoCommands):
    """Runs the statements of verifiers on the frozen database.

    Args:
        clone: Frozen before the first statement; it outlives this.
    """

    def __init__(self, clone: Clone) -> None:
        self._clone = clone

    def query(self, statement: str, values: Mapping[str, Any]) -> QueryResult:
        """Run one reading statement; see `Queries`.

        Raises:
            SandboxError: If the database cannot be read.
            VerifierError: If the statement is wrong on the untouched database too.
        """
        found = self._clone.ask(statement, values, _QUERY)
        if "problem" in found:
            untouched = self._clone.ask(statement, values, _QUERY, untouched=True)
            if "problem" in untouched:
                raise VerifierError(
                    f"The check's statement fails: {untouched['problem']}"
                )
            return QueryResult(problem=found["problem"])
        if len(found["rows"]) > ROWS_MAX:
            return QueryResult(problem=f"more than {ROWS_MAX} rows")
        names = found["names"]
        rows = (dict(zip(names, row, strict=True)) for row in found["rows"])
        return QueryResult(tuple(rows))


def _answer(found: Mapping[str, Any]) -> Answer:
    if found["lost"]:
        gone = SqlError("08006", "FATAL", "the database's process ended")
        late = found["timed_out"]
        return Answer(error=None if late else gone, timed_out=late, lost=True)
    error = found["error"]
    return Answer(
        columns=tuple(found["columns"]),
        rows=[tuple(row) for row in found["rows"]],
        rows_total=found["rows_total"],
        bytes_total=found["bytes_total"],
        bytes_kept=found["bytes_kept"],
        tag=found["tag"],
        error=SqlError(error["state"], "ERROR", error["message"]) if error else None,
        timed_out=found["timed_out"],
    )
