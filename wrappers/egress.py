"""EgressBlock: pinned names, recorded exchanges, and events for every attempt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
from typing_extensions import override

from rlvr_envs.confinement import Confinement, EgressRule, Exchange


class EgressBlock(gym.Wrapper[Any, Any, Any, Any]):
    """Puts stand-ins where the network would be, and counts who tries to leave.

    The sandbox has no route out with or without this layer. With it, names are
    answered by a stub, recorded HTTP exchanges are replayed on loopback, and each
    attempt appears in ``info["events"]``.

    Args:
        env: The environment to wrap.
        dns: Host name to IPv4 address; every other name does not exist.
        exchanges: Recorded HTTP exchanges, as `Exchange` or as its mapping.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        dns: Mapping[str, str] | None = None,
        exchanges: Iterable[Exchange | Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(env)
        names = {name.lower().rstrip("."): ip for name, ip in (dns or {}).items()}
        self._rule = EgressRule(names, tuple(_exchange(item) for item in exchanges))

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode behind the stand-ins."""
        held = (options or {}).get("confinement", Confinement())
        narrowed = {**(options or {}), "confinement": held.narrow(egress=self._rule)}
        return self.env.reset(seed=seed, options=narrowed)


def _exchange(item: Exchange | Mapping[str, Any]) -> Exchange:
    if isinstance(item, Exchange):
        return item
    body = item.get("body", b"")
    headers = tuple((str(k), str(v)) for k, v in dict(item.get("headers", {})).items())
    return Exchange(
        method=item["method"],
        url=item["url"],
        status=int(item["status"]),
        headers=headers,
        body=body.encode() if isinstance(body, str) else bytes(body),
    )
