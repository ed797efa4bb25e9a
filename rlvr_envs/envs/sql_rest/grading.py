"""How verifiers read the final database: as the grader's own role, and no other way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import psycopg
from psycopg.rows import dict_row

from rlvr_envs.errors import SandboxError, VerifierError, boundary
from rlvr_envs.sandbox.postgres.clone import Clone
from rlvr_envs.sandbox.postgres.cluster import Connection
from rlvr_envs.sandbox.postgres.showing import shown
from rlvr_envs.state import QueryResult, RunRequest, RunResult

ROWS_MAX = 10_000
"""Most rows that one statement may find."""

_LIMIT_S = 20


class NoCommands:
    """What has a database, and no machine to run commands on."""

    def run(self, request: RunRequest) -> RunResult:
        """Refuse: a database runs no commands.

        Raises:
            VerifierError: Always.
        """
        raise VerifierError(f"A database episode cannot run {request.argv[:1]}.")


class GraderQueries(NoCommands):
    """Runs the statements of verifiers in the frozen clone.

    Args:
        clone: Frozen before the first statement; it outlives this.
    """

    def __init__(self, clone: Clone) -> None:
        self._clone = clone

    def query(self, statement: str, values: Mapping[str, Any]) -> QueryResult:
        """Run one reading statement; see `Queries`.

        Where it fails, it is tried on the untouched database: what fails there too
        is the task's mistake and not the agent's.

        Raises:
            SandboxError: If the server is gone.
            VerifierError: If the statement is wrong on the untouched database too.
        """
        name = self._clone.name
        try:
            return _shown(_run(self._clone.grader(), statement, values), name)
        except psycopg.Error as error:
            said = f"{error.sqlstate}: {error.diag.message_primary or error}"
            told = shown(said, name)
        with boundary(SandboxError, "reading the untouched database"):
            untouched = self._clone.template.baseline().connection
        try:
            _run(untouched, statement, values)
        except psycopg.Error as error:
            raise VerifierError(f"The check's statement fails: {error}") from error
        return QueryResult(problem=told)


def _shown(found: QueryResult, name: str) -> QueryResult:
    rows = (
        {
            column: shown(value, name) if isinstance(value, str) else value
            for column, value in row.items()
        }
        for row in found.rows
    )
    return replace(found, rows=tuple(rows))


def _run(
    connection: Connection, statement: str, values: Mapping[str, Any]
) -> QueryResult:
    try:
        with (
            connection.transaction(),
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            cursor.execute(f"SET LOCAL statement_timeout = '{_LIMIT_S}s'".encode())
            cursor.execute(statement.encode(), values)
            rows = cursor.fetchmany(ROWS_MAX + 1)
    except psycopg.OperationalError as error:
        if connection.broken or connection.closed:
            raise SandboxError(f"The database server is gone: {error}") from error
        raise
    if len(rows) > ROWS_MAX:
        return QueryResult(problem=f"more than {ROWS_MAX} rows")
    return QueryResult(tuple(rows))
