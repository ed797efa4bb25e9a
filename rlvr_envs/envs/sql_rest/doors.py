"""The doors of an episode, opened when the agent first knocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rlvr_envs.envs.sql_rest.engine import Engine
from rlvr_envs.envs.sql_rest.others import Others
from rlvr_envs.envs.sql_rest.serving import Service, render
from rlvr_envs.envs.sql_rest.session import Session
from rlvr_envs.envs.sql_rest.spec import WorldSpec
from rlvr_envs.envs.sql_rest.wire import SqlError
from rlvr_envs.records import ErrorKind, ToolResult

_FIRST_ERROR = 400
_NO_HTTP = "There is no HTTP service in this task."
_OVER = "This episode is over: all that is left is to submit it."
_NO_SQL = "There is no SQL in this task: its database is reached over HTTP alone."


class Doors:
    """What the tools of an episode act on.

    Args:
        engine: The episode's database; it outlives the doors.
        spec: Which doors there are.
        step_timeout_s: Wall time of one call.
        open_service: Opens the episode's service; ``None`` where there is none.
        others: Who else writes, where no service is; ``None`` for nobody.

    Attributes:
        error: What the database said of the last call, if it refused it.
        answer: What the agent submitted; empty before, and if it said nothing.
        service: The episode's service, once somebody knocked there.
        wrote: Whether the last call went through a door that can write.
    """

    def __init__(
        self,
        engine: Engine,
        spec: WorldSpec,
        *,
        step_timeout_s: float,
        open_service: Callable[[], Service] | None = None,
        others: Others | None = None,
    ) -> None:
        self._engine = engine
        self._spec = spec
        self._step_timeout_s = step_timeout_s
        self._sql: Session | None = None
        self._query: Session | None = None
        self._open_service = open_service
        self._others = others
        self._turn = 0
        self._left_s = step_timeout_s
        self.service: Service | None = None
        self.error: SqlError | None = None
        self.answer = ""
        self.wrote = False
        self._shut = ""

    def begin(self, turn: int, limit_s: float) -> None:
        """Say which call is coming, and how much of the episode's time is left."""
        self._turn = turn
        self._left_s = limit_s
        self.error = None
        self.wrote = False

    def sql(self, statement: str) -> ToolResult:
        """Run one statement in the session that lasts.

        Raises:
            SandboxError: If the server is gone.
        """
        closed = self._closed()
        if closed:
            return refusal(closed)
        if self._sql is None:
            self._sql = self._engine.lasting(step_timeout_s=self._step_timeout_s)
        self.wrote = True
        self._meet(writes=True)
        return self._told(self._sql, statement)

    def query(self, statement: str) -> ToolResult:
        """Run one statement that can only look.

        Raises:
            SandboxError: If the server is gone.
        """
        closed = self._closed()
        if closed:
            return refusal(closed)
        self._meet(writes=False)
        return self._told(self._reader(), statement)

    def schema(self) -> ToolResult:
        """Return what tables and views there are.

        Raises:
            SandboxError: If the server is gone.
        """
        closed = self._closed()
        if closed:
            return refusal(closed)
        reader = self._reader()
        reader.limit_s(self._left_s)
        result = reader.schema()
        self._shut = reader.over
        return result

    def http(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: str = "",
    ) -> ToolResult:
        """Send one request to the service.

        Raises:
            SandboxError: If the service broke, or the server is gone.
        """
        if self._shut or self._open_service is None:
            return refusal(self._shut or _NO_HTTP)
        if self.service is None:
            self.service = self._open_service()
        self.wrote = True
        answer = self.service.request(method, path, headers or {}, body, self._turn)
        text = render(answer)
        return ToolResult(
            text,
            ok=answer.status < _FIRST_ERROR,
            error_kind=(
                ErrorKind.NONE if answer.status < _FIRST_ERROR else ErrorKind.TOOL_ERROR
            ),
            bytes_total=len(answer.body.encode()),
            raw=text.encode(),
        )

    def close(self) -> None:
        """End others' sessions; those of the agent's role end with the freeze."""
        if self.service is not None:
            self.service.close()
        if self._others is not None:
            self._others.close()

    def shut(self) -> None:
        """Let nothing through any more; what was answered stays."""
        self._shut = _OVER

    def submit(self, answer: str) -> ToolResult:
        """End the episode."""
        if not self._shut:
            self.answer = answer
        return ToolResult("The episode is over.", submits=True)

    def _meet(self, *, writes: bool) -> None:
        if self._others is not None:
            self._others.act(self._turn, writes=writes)

    def _closed(self) -> str:
        """Return why there is no SQL; empty if there is."""
        return self._shut or (_NO_SQL if self._spec.rights == "none" else "")

    def _reader(self) -> Session:
        if self._query is None:
            self._query = self._engine.looking(step_timeout_s=self._step_timeout_s)
        return self._query

    def _told(self, session: Session, statement: str) -> ToolResult:
        session.limit_s(self._left_s)
        result = session.sql(statement)
        self.error = session.error
        self._shut = session.over
        return result


def refusal(text: str) -> ToolResult:
    """Return the answer to a call that this episode has no door for."""
    return ToolResult(text, ok=False, error_kind=ErrorKind.TOOL_ERROR)
