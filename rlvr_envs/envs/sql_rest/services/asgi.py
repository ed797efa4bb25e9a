"""One request to an ASGI application, without a socket, a thread or an event loop.

Routes here never wait for anything: their coroutine runs through at once, whether or
not the calling thread has a loop of its own, as in a notebook.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

Scope = MutableMapping[str, Any]

_LONGEST = 2048
"""Characters of a path; an integer of more digits than 4300 would break its route."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered; header names in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


def scope_of(
    method: str, path: str, headers: Mapping[str, str], state: Mapping[str, Any]
) -> Scope:
    """Return an HTTP scope.

    Args:
        method: In upper case.
        path: As the agent wrote it, query included; ``*`` is the service as a whole.
        headers: By name, in any case.
        state: What routes find as ``request.state``.

    Raises:
        ValueError: If the path is no path, or too long.
    """
    if len(path) > _LONGEST:
        raise ValueError(f"A path has at most {_LONGEST} characters.")
    parts = urlsplit(path)
    if path != "*" and (not path.startswith("/") or path.startswith("//")):
        raise ValueError("The path starts with one slash.")
    pairs = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in headers.items()
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": pairs,
        "client": ("agent", 0),
        "server": ("service", 80),
        "state": dict(state),
    }


def ask(app: Any, scope: Scope, body: bytes) -> Answer:
    """Send a request and return the answer.

    Raises:
        RuntimeError: If a route waits for something.
    """
    pending = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        return pending.pop(0) if pending else {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    _run_through(app(scope, receive, send))
    start = next(part for part in sent if part["type"] == "http.response.start")
    data = b"".join(
        part.get("body", b"") for part in sent if part["type"] == "http.response.body"
    )
    headers = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in start["headers"]
    }
    return Answer(start["status"], headers, data.decode("utf-8", "replace"))


def _run_through(coroutine: Any) -> None:
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("A route of a service waits; here, none may.")
