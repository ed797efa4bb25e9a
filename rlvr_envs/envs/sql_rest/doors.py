"""The doors of an episode, opened when the agent first knocks."""

from __future__ import annotations

from rlvr_envs.envs.sql_rest.session import ReadSession, SqlSession
from rlvr_envs.envs.sql_rest.spec import WorldSpec
from rlvr_envs.envs.sql_rest.wire import SqlError
from rlvr_envs.records import ErrorKind, ToolResult
from rlvr_envs.sandbox.postgres.clone import Clone

_NO_SQL = "There is no SQL in this task: its database is reached over HTTP alone."


class Doors:
    """What the tools of an episode act on.

    Args:
        clone: The episode's database; it outlives the doors.
        spec: Which doors there are.
        step_timeout_s: Wall time of one call.

    Attributes:
        error: What the database said of the last call, if it refused it.
        answer: What the agent submitted; empty before, and if it said nothing.
        wrote: Whether the last call went through a door that can write.
    """

    def __init__(self, clone: Clone, spec: WorldSpec, *, step_timeout_s: float) -> None:
        self._clone = clone
        self._spec = spec
        self._step_timeout_s = step_timeout_s
        self._sql: SqlSession | None = None
        self._query: ReadSession | None = None
        self._left_s = step_timeout_s
        self.error: SqlError | None = None
        self.answer = ""
        self.wrote = False

    def begin(self, limit_s: float) -> None:
        """Say how much of the episode's time is left for the coming call."""
        self._left_s = limit_s
        self.error = None
        self.wrote = False

    def sql(self, statement: str) -> ToolResult:
        """Run one statement in the session that lasts.

        Raises:
            SandboxError: If the server is gone.
        """
        if self._spec.rights == "none":
            return refusal(_NO_SQL)
        if self._sql is None:
            self._sql = SqlSession(self._clone, step_timeout_s=self._step_timeout_s)
        self.wrote = True
        return self._told(self._sql, statement)

    def query(self, statement: str) -> ToolResult:
        """Run one statement that can only look.

        Raises:
            SandboxError: If the server is gone.
        """
        if self._spec.rights == "none":
            return refusal(_NO_SQL)
        return self._told(self._reader(), statement)

    def schema(self) -> ToolResult:
        """Return what tables and views there are.

        Raises:
            SandboxError: If the server is gone.
        """
        if self._spec.rights == "none":
            return refusal(_NO_SQL)
        reader = self._reader()
        reader.limit_s(self._left_s)
        return reader.schema()

    def submit(self, answer: str) -> ToolResult:
        """End the episode."""
        self.answer = answer
        return ToolResult("The episode is over.", submits=True)

    def _reader(self) -> ReadSession:
        if self._query is None:
            self._query = ReadSession(self._clone, step_timeout_s=self._step_timeout_s)
        return self._query

    def _told(self, session: SqlSession, statement: str) -> ToolResult:
        session.limit_s(self._left_s)
        result = session.sql(statement)
        self.error = session.error
        return result


def refusal(text: str) -> ToolResult:
    """Return the answer to a call that this episode has no door for."""
    return ToolResult(text, ok=False, error_kind=ErrorKind.TOOL_ERROR)
