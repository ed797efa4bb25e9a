"""What all sandboxes of one process share: made at the first start, ended at exit."""

from __future__ import annotations

import atexit
import os
import weakref
from pathlib import Path
from typing import Protocol

from rlvr_envs.errors import MissingRequirement, place
from rlvr_envs.records import Layer, Places
from rlvr_envs.sandbox.broker import close_brokers
from rlvr_envs.sandbox.cgroups import Hierarchies
from rlvr_envs.sandbox.hulls import HullStore
from rlvr_envs.sandbox.idmaps import IdMaps
from rlvr_envs.sandbox.launcher import launcher
from rlvr_envs.sandbox.overlay import Worlds
from rlvr_envs.sandbox.perprocess import PerProcess
from rlvr_envs.sandbox.reaper import sweep


class Viewed(Protocol):
    """A sandbox whose final root others may start from or be shown."""

    def verifier_root(self) -> Path:
        """Return its final root, owned by the verifiers' range."""

    def final_layers(self) -> tuple[Layer, ...]:
        """Return what its final root consists of, the base first."""


class Runtime:
    """The launcher, the id maps, packets, the spare hull, and which view is whose.

    Attributes:
        room: Where every supervisor mounts its room, in a namespace of its own.
        views: Sandboxes by the host path of their room.
    """

    def __init__(self, places: Places) -> None:
        require_root()
        self.hierarchies = Hierarchies.here()
        self.hierarchies.prepare()
        self.program = launcher(places)
        with place(f"The run folder {places.run}"):
            room = places.run / "m"
            room.mkdir(parents=True, exist_ok=True)
        sweep(places, self.hierarchies)
        self.room = room.resolve()
        self.maps = IdMaps(self.program)
        self.worlds = Worlds(self.room, self.maps)
        self.hulls = HullStore(self.program, self.hierarchies)
        self.views: weakref.WeakValueDictionary[Path, Viewed] = (
            weakref.WeakValueDictionary()
        )

    def close(self) -> None:
        """End the spare hull and close what is kept open."""
        self.hulls.close()
        self.maps.close()


_runtimes = PerProcess(Runtime)


def runtime(places: Places) -> Runtime:
    """Return this process's; a forked child gets its own.

    Raises:
        MissingRequirement: If the machine lacks something.
        WrongArgument: If the run folder cannot be made.
        SandboxError: If it could not be set up.
    """
    return _runtimes.get(places)


def close_runtimes() -> None:
    """End what is kept between sandboxes; the next start makes it anew."""
    _runtimes.close()
    close_brokers()


def require_root() -> None:
    """Check that this process may make namespaces for others.

    Raises:
        MissingRequirement: If it is not root with CAP_SYS_ADMIN.
    """
    status = Path("/proc/self/status").read_text()
    effective = next(ln for ln in status.splitlines() if ln.startswith("CapEff:"))
    if os.geteuid() != 0 or not int(effective.split()[1], 16) >> 21 & 1:
        raise MissingRequirement(
            "The namespaces backend needs root with CAP_SYS_ADMIN.",
            remedy="run as root (sudo, or a --privileged container), or choose the "
            "docker backend.",
        )


atexit.register(close_runtimes)
