"""Other companies' servers: what they answered once, they answer again.

No stub of a company's own and no socket: a recorded unary call of gRPC is its full
method, the bytes of its request, and the code and bytes that came back.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rlvr_envs.relational import Outbound

_HTTP = frozenset({"method", "url", "request", "status", "headers", "answer"})
_RPC = frozenset({"rpc", "request", "code", "details", "answer"})
_OK = "OK"
RPC_CODES = frozenset(
    {
        _OK, "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",
        "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
    }
)  # fmt: skip
"""Status codes of gRPC, by name."""


class Unrecorded(Exception):
    """A service asked another company what nobody recorded; its caller gets a 502."""


class RpcError(Exception):
    """A unary call ended with another code than ``OK``."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"{code}: {details}")
        self.code = code
        self.details = details


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer over HTTP; header names in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True, slots=True)
class _Ended:
    code: str
    details: str
    answer: bytes


_Request: TypeAlias = "tuple[str, str, str | bytes]"


class Recorded:
    """The recordings of one episode, and what was asked of them.

    Rows of one and the same request answer one after another; the last one stays.

    Args:
        rows: Of HTTP: ``method``, ``url``, ``request`` (its body: text, or JSON that
            is sent as `body_of` writes it; none by default), ``status`` (200),
            ``headers``, ``answer`` (text or JSON). Of gRPC: ``rpc`` (such as
            ``/customs.v1.Duties/Quote``), ``request`` and ``answer`` (base64),
            ``code`` (``OK``), ``details``.

    Attributes:
        calls: What the service asked, in order.

    Raises:
        ValueError: If a row is wrong.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._left: dict[_Request, list[Reply | _Ended]] = {}
        self.calls: list[Outbound] = []
        for row in rows:
            request, answer = _read(row)
            self._left.setdefault(request, []).append(answer)

    def http(self, method: str, url: str, body: str = "", *, turn: int) -> Reply:
        """Ask over HTTP.

        Raises:
            Unrecorded: If no row has this method, URL and body.
        """
        reply = self._next((method, url, body))
        status = str(reply.status) if isinstance(reply, Reply) else ""
        self.calls.append(Outbound(turn, method, url, status))
        if not isinstance(reply, Reply):
            raise Unrecorded(f"{method} {url}")
        return reply

    def unary(self, rpc: str, request: bytes, *, turn: int) -> bytes:
        """Call a method of gRPC with one message, and return the one that comes back.

        Args:
            rpc: Full name, with a slash before the package.
            request: Serialized.
            turn: Of the request that the service answers.

        Raises:
            RpcError: If the recorded call ended with another code than ``OK``.
            Unrecorded: If no row has this method and this message.
        """
        ended = self._next(("", rpc, request))
        code = ended.code if isinstance(ended, _Ended) else ""
        self.calls.append(Outbound(turn, "", rpc, code))
        if not isinstance(ended, _Ended):
            raise Unrecorded(rpc)
        if ended.code != _OK:
            raise RpcError(ended.code, ended.details)
        return ended.answer

    def _next(self, request: _Request) -> Reply | _Ended | None:
        rows = self._left.get(request)
        if not rows:
            return None
        return rows.pop(0) if len(rows) > 1 else rows[0]


def body_of(value: Any) -> str:
    """Return a body as services send it: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def rpc_row(
    rpc: str, request: bytes, answer: bytes = b"", *, code: str = _OK, details: str = ""
) -> dict[str, Any]:
    """Return a row of a unary call, as plain JSON; for generators."""
    return {
        "rpc": rpc,
        "request": base64.b64encode(request).decode(),
        "answer": base64.b64encode(answer).decode(),
        "code": code,
        "details": details,
    }


def _read(row: Mapping[str, Any]) -> tuple[_Request, Reply | _Ended]:
    known, read = (_RPC, _unary) if "rpc" in row else (_HTTP, _exchange)
    strange = sorted(row.keys() - known)
    if strange:
        raise ValueError(f"An exchange has no {strange[0]!r}; known: {sorted(known)}.")
    return read(row)


def _exchange(row: Mapping[str, Any]) -> tuple[_Request, Reply]:
    if not {"method", "url"} <= row.keys():
        raise ValueError(f"An exchange has a method and a url, or an rpc: {row}.")
    headers = {name.lower(): value for name, value in row.get("headers", {}).items()}
    request = (row["method"], row["url"], body_of(row.get("request", "")))
    return request, Reply(
        row.get("status", 200), headers, body_of(row.get("answer", ""))
    )


def _unary(row: Mapping[str, Any]) -> tuple[_Request, _Ended]:
    code = row.get("code", _OK)
    if code not in RPC_CODES or not row["rpc"].startswith("/"):
        raise ValueError(f"An exchange has a code of gRPC and a /full.name: {row}.")
    try:
        request = base64.b64decode(row.get("request", ""), validate=True)
        answer = base64.b64decode(row.get("answer", ""), validate=True)
    except binascii.Error as error:
        raise ValueError(
            f"An exchange of gRPC has messages in base64: {row}."
        ) from error
    return ("", row["rpc"], request), _Ended(code, row.get("details", ""), answer)
