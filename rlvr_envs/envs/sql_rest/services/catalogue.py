"""Which services there are, by the name that a task calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any

from rlvr_envs.envs.sql_rest.services.definition import Definition
from rlvr_envs.envs.sql_rest.services.dispatch import DISPATCH
from rlvr_envs.envs.sql_rest.services.episode import Episode
from rlvr_envs.envs.sql_rest.services.faults import Faults
from rlvr_envs.envs.sql_rest.services.ledger import LEDGER
from rlvr_envs.envs.sql_rest.services.recorded import Recorded
from rlvr_envs.envs.sql_rest.services.retail import RETAIL
from rlvr_envs.envs.sql_rest.services.rivals import Rivals
from rlvr_envs.envs.sql_rest.services.service import Service
from rlvr_envs.envs.sql_rest.services.shop import SHOP
from rlvr_envs.envs.sql_rest.services.sink import Sink
from rlvr_envs.errors import SandboxError, boundary
from rlvr_envs.sandbox.postgres.clone import Clone

SERVICES: Mapping[str, Definition] = MappingProxyType(
    {"shop": SHOP, "ledger": LEDGER, "dispatch": DISPATCH, "retail": RETAIL}
)


def open_service(
    name: str, clone: Clone, settings: Mapping[str, Any], clock: Callable[[], float]
) -> Service:
    """Open a service for one episode.

    Args:
        name: A key of `SERVICES`.
        clone: The episode's database; it outlives the service.
        settings: ``Recipe.service`` of the instance: ``faults``, ``sink``,
            ``rivals``, ``exchanges``, and what the service itself reads.
        clock: Returns the episode's time, in seconds since 1970.

    Raises:
        SandboxError: If there is no such service, or the database is gone.
        ValueError: If a setting is wrong.
    """
    if name not in SERVICES:
        raise SandboxError(
            f"No service is named {name!r}; known: {', '.join(SERVICES)}."
        )
    sink = Sink(settings.get("sink", {}))
    faults = _faults(SERVICES[name], settings)
    rivals = Rivals(settings.get("rivals", ()))
    recorded = Recorded(settings.get("exchanges", ()))
    with ExitStack() as opened, boundary(SandboxError, f"opening the service {name!r}"):
        connection = clone.open_party()
        opened.callback(connection.close)
        clone.follow_clock(connection)
        episode = Episode(connection, clock, settings, sink, recorded)
        opened.pop_all()
    return Service(SERVICES[name], episode, faults, rivals)


def _faults(definition: Definition, settings: Mapping[str, Any]) -> Faults:
    """Read the faults: one that no request could meet would go unnoticed."""
    faults = Faults(settings.get("faults", ()))
    known = {operation.name for operation in definition.operations}
    strange = sorted(faults.operations - known)
    if strange:
        raise ValueError(f"A fault names no operation of the service: {strange[0]!r}.")
    return faults
