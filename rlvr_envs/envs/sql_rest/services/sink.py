"""Where webhooks go: recorded on the harness's side, out of the agent's reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvr_envs.relational import Delivered

_OK = 200


class Sink:
    """Records every delivery and answers as the instance says.

    Args:
        settings: ``statuses``: what the first deliveries are answered with, in order;
            200 after them.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._statuses = list(settings.get("statuses", ()))
        self.deliveries: list[Delivered] = []

    def deliver(self, name: str, body: Any, *, key: str, turn: int) -> int:
        """Take one delivery and return the HTTP status that it is answered with."""
        status = int(self._statuses.pop(0)) if self._statuses else _OK
        self.deliveries.append(Delivered(turn, name, body, status, key))
        return status
