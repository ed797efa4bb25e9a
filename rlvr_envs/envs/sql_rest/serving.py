"""What the HTTP door needs of a service, and how its answers are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Protocol

from rlvr_envs.relational import Delivered, HttpExchange, Outbound
from rlvr_envs.tools.text import show_invisible

_UNSHOWN = frozenset({"content-length"})
"""Headers that say nothing of what happened."""


class Answer(Protocol):
    """What a service answered."""

    @property
    def status(self) -> int:
        """HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """By name, in lower case."""

    @property
    def body(self) -> str:
        """As text; empty if there is none."""


class Service(Protocol):
    """A service of one episode."""

    @property
    def exchanges(self) -> Sequence[HttpExchange]:
        """Requests as the service saw them, in order."""

    @property
    def deliveries(self) -> Sequence[Delivered]:
        """Webhooks that its sink recorded, in order."""

    @property
    def outbound(self) -> Sequence[Outbound]:
        """What it asked of other companies, in order."""

    def request(
        self, method: str, path: str, headers: Mapping[str, str], body: str, turn: int
    ) -> Answer:
        """Answer one request.

        Raises:
            WorldError: If the service broke; no mistake of the agent raises.
        """

    def close(self) -> None:
        """End its sessions; what it did not commit is undone. Idempotent."""


def render(answer: Answer) -> str:
    """Return status, headers and body as lines.

    Source:
        Own rule: ARCHITECTURE.md#sql-observations.
    """
    head = [f"HTTP {answer.status} {_phrase(answer.status)}".rstrip()]
    lines = [*head, *_headers(answer.headers)]
    if answer.body:
        lines += ["", show_invisible(answer.body)]
    return "\n".join(lines)


def _headers(headers: Mapping[str, str]) -> Iterator[str]:
    for name, value in headers.items():
        if name.lower() not in _UNSHOWN:
            yield show_invisible(f"{name.lower()}: {value}")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
