"""Mock services above an episode's database: honest HTTP, in this process."""

from __future__ import annotations

from typing import Any


def open_service(*arguments: Any) -> Any:
    """Open a service for one episode; see `catalogue.open_service`."""
    # Generators import the tables beside it, and need no web framework for that.
    from rlvr_envs.envs.sql_rest.services import catalogue  # noqa: PLC0415 (it is slow)

    return catalogue.open_service(*arguments)
