"""Names of databases and roles that tell whose they are."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

from rlvr_envs.sandbox.owners import is_abandoned, owner_name

PREFIX = "rlvr-"
"""Of every name that this package gives."""

TEMPLATE_PREFIX = f"{PREFIX}t-"
_count = itertools.count(1)


def owned_name(kind: str) -> str:
    """Return a new name of this process's own.

    Args:
        kind: One letter, for people who look at the server.
    """
    return f"{own_prefix()}{kind}{next(_count):06d}"


def own_prefix() -> str:
    """Return how all names of this process's own begin."""
    return f"{_machine()}{owner_name()}-"


def is_orphan(name: str) -> bool:
    """Whether the process of this machine that a name was given by is gone."""
    machine = _machine()
    return name.startswith(machine) and is_abandoned(name.removeprefix(machine))


@cache
def _machine() -> str:
    # Several machines may share a cluster, and their pid namespaces look alike.
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    return f"{PREFIX}{boot[:8]}-"
