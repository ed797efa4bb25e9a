"""A service of one episode: keys, faults, transactions, and a record of it all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import psycopg
from fastapi.routing import APIRoute
from psycopg import errors
from starlette.routing import Match

from rlvr_envs.envs.sql_rest.services import strict_json
from rlvr_envs.envs.sql_rest.services.asgi import Answer, Scope, ask, scope_of
from rlvr_envs.envs.sql_rest.services.definition import SAFE, Definition
from rlvr_envs.envs.sql_rest.services.episode import Episode
from rlvr_envs.envs.sql_rest.services.faults import AFTER, BEFORE, Fault, Faults
from rlvr_envs.envs.sql_rest.services.keys import Kept, Keys, digest
from rlvr_envs.envs.sql_rest.services.recorded import Unrecorded
from rlvr_envs.envs.sql_rest.services.rivals import Rivals
from rlvr_envs.errors import SandboxError, boundary
from rlvr_envs.relational import Delivered, HttpExchange, Outbound

_REFUSED, _CONFLICT, _UNPROCESSABLE, _PATIENCE = 400, 409, 422, 429
_BAD_GATEWAY, _BUSY = 502, 503
_UNREAD = frozenset({_REFUSED, _UNPROCESSABLE})
KEY = "idempotency-key"


@dataclass(frozen=True, slots=True)
class _Done:
    """What came of a request.

    Attributes:
        status: Of the work; the answer's differs where only the answer was lost.
        replayed: Whether it is an earlier request's answer.
    """

    answer: Answer
    status: int
    replayed: bool = False


class Service:
    """What one episode's requests reach; made by `open_service`.

    Attributes:
        exchanges: Requests as the service saw them, in order; the status is that of
            the work, also where the agent was never told of it.
    """

    def __init__(
        self, definition: Definition, episode: Episode, faults: Faults, rivals: Rivals
    ) -> None:
        self._definition = definition
        self._episode = episode
        self._faults = faults
        self._rivals = rivals
        self._keys = Keys(episode.connection)
        self.exchanges: list[HttpExchange] = []

    @property
    def deliveries(self) -> list[Delivered]:
        """Webhooks that the sink recorded, in order."""
        return self._episode.sink.deliveries

    @property
    def outbound(self) -> list[Outbound]:
        """What it asked of other companies, in order."""
        return self._episode.recorded.calls

    def close(self) -> None:
        """End its session; idempotent."""
        self._episode.connection.close()

    def request(
        self, method: str, path: str, headers: Mapping[str, str], body: str, turn: int
    ) -> Answer:
        """Answer one request, and record it.

        Raises:
            SandboxError: If the service broke, or the database is gone.
        """
        self._episode.turn = turn
        self._episode.key = _header(headers, KEY)
        with boundary(SandboxError, "answering a request"):
            answer = self._request(method, path, headers, body)
        return Answer(answer.status, answer.headers) if method == "HEAD" else answer

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: str
    ) -> Answer:
        asked = "GET" if method == "HEAD" else method
        try:
            scope = scope_of(asked, path, headers, {"episode": self._episode})
        except ValueError as error:
            refused = problem(_REFUSED, str(error))
            self._record("", {}, (method, path, body), _Done(refused, _REFUSED))
            return refused
        operation = self._operation(scope)
        self._rivals.act(
            self._episode.connection,
            self._episode.turn,
            writes=bool(operation) and method not in SAFE,
        )
        done = self._done(operation, scope, path, body)
        self._record(operation, scope, (method, path, body), done)
        return done.answer

    def _operation(self, scope: Scope) -> str:
        for route in self._definition.app.routes:
            match, child = route.matches(scope)
            if match is Match.FULL and isinstance(route, APIRoute):
                scope["path_params"] = child["path_params"]
                return str(route.operation_id)
        return ""

    def _done(self, operation: str, scope: Scope, path: str, body: str) -> _Done:
        if not operation:
            return _plainly(self._worked(scope, body))
        now_s = self._episode.clock_s()
        if fault := self._faults.meets(operation, BEFORE, now_s):
            return _plainly(_trouble(fault))
        asked = digest([scope["method"], path, body])
        key = "" if scope["method"] in SAFE else self._episode.key
        if key and (kept := self._keys.find(key)):
            return _again(kept, asked)
        answer = self._worked(scope, body, key=key, asked=asked)
        if fault := self._faults.meets(operation, AFTER, now_s):
            return _Done(_trouble(fault), answer.status)
        return _plainly(answer)

    def _worked(
        self, scope: Scope, body: str, *, key: str = "", asked: bytes = b""
    ) -> Answer:
        """Run the application and keep its answer: what it refuses is undone."""
        if unread := _unread(scope, body):
            return unread
        try:
            with self._episode.connection.transaction() as transaction:
                answer = ask(self._definition.app, scope, body.encode())
                if answer.status >= _REFUSED:
                    raise psycopg.Rollback(transaction)
                if key:
                    self._keys.keep(key, asked, answer)
        except Unrecorded:
            return problem(_BAD_GATEWAY, "Another company's server cannot be reached.")
        except psycopg.Error as error:
            if self._episode.connection.closed:
                told = f"The service lost its database: {error}"
                raise SandboxError(told) from error
            return _undone(error)
        return answer

    def _record(
        self, operation: str, scope: Scope, asked: tuple[str, str, str], done: _Done
    ) -> None:
        method, path, body = asked
        read = operation and done.status not in _UNREAD
        self.exchanges.append(
            HttpExchange(
                turn=self._episode.turn,
                method=method,
                path=path,
                operation=operation,
                reads=method in SAFE,
                parameters=_parameters(scope, path, body) if read else {},
                status=done.status,
                answer=_plain(done.answer.body),
                idempotency_key=self._episode.key,
                replayed=done.replayed,
            )
        )


def _unread(scope: Scope, body: str) -> Answer | None:
    """Return the answer to a body that is no JSON; say of any other that it is some."""
    if not body:
        return None
    try:
        strict_json.loads(body)
    except ValueError as error:
        return problem(_REFUSED, f"The body is no strict JSON: {error}.")
    if b"content-type" not in dict(scope["headers"]):
        scope["headers"].append((b"content-type", b"application/json"))
    return None


def _undone(error: psycopg.Error) -> Answer:
    """Return the answer to a request that the database refused.

    An agent can hold a lock, and its trigger can raise what it likes: as long as the
    session lives, that breaks no world.
    """
    if isinstance(error, errors.LockNotAvailable | errors.QueryCanceled):
        return problem(_BUSY, "The data is in use; try again.")
    if isinstance(error, psycopg.OperationalError):
        return problem(_BUSY, "The database could not do it; try again.")
    if isinstance(error, psycopg.DataError):
        return problem(_UNPROCESSABLE, f"No such value can be kept: {error}.")
    told = error.diag.message_primary
    return problem(_CONFLICT, f"The write does not fit the data: {told}.")


def _plainly(answer: Answer) -> _Done:
    return _Done(answer, answer.status)


def _again(kept: Kept, asked: bytes) -> _Done:
    """Answer a key that was used: the same request the same, any other refused."""
    if kept.request != asked:
        told = "This idempotency key belongs to another request."
        return _plainly(problem(_UNPROCESSABLE, told))
    headers = {**kept.answer.headers, "idempotent-replayed": "true"}
    answer = Answer(kept.answer.status, headers, kept.answer.body)
    return _Done(answer, answer.status, replayed=True)


def _parameters(scope: Scope, path: str, body: str) -> dict[str, Any]:
    query = dict(parse_qsl(urlsplit(path).query))
    given = _given(body)
    return {
        **query,
        **(given if isinstance(given, dict) else {}),
        **scope.get("path_params", {}),
    }


def _given(body: str) -> Any:
    """Return a body; nothing if nobody could have read it (a fault came before)."""
    try:
        return strict_json.loads(body) if body else None
    except ValueError:
        return None


def _plain(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def _header(headers: Mapping[str, str], name: str) -> str:
    found = (value for key, value in headers.items() if key.lower() == name)
    return next(found, "")


def _trouble(fault: Fault) -> Answer:
    told = "Too many requests." if fault.status == _PATIENCE else "Please try again."
    answer = problem(fault.status, told)
    headers = {**answer.headers, "retry-after": str(fault.retry_after_s)}
    return Answer(answer.status, headers, answer.body)


def problem(status: int, told: str) -> Answer:
    """Return the answer to what cannot be done."""
    body = json.dumps({"detail": told})
    return Answer(status, {"content-type": "application/json"}, body)
