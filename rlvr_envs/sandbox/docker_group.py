"""The control group that a daemon made for a container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from typing_extensions import override

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.cgroups import Group, Hierarchies


class ContainerGroup(Group):
    """Found by its init; the daemon made it, limits it, and removes it."""

    def __init__(self, init: int) -> None:
        hierarchies = Hierarchies.here()
        paths = dict(_membership(init))
        super().__init__(hierarchies, f"container-{init}")
        self.legacy = {
            controller: mount / paths[controller].lstrip("/")
            for controller, mount in hierarchies.legacy.items()
            if paths.get(controller, "/") != "/"
        }
        own = paths.get("", "/")
        self.unified = None
        if hierarchies.unified is not None and own != "/":
            self.unified = hierarchies.unified / own.lstrip("/")
        if self.unified is None and "freezer" not in self.legacy:
            raise SandboxError("The container is in no control group that can stop it.")

    @override
    def members(self) -> list[int]:
        """Return the pids in the group and below it; none once it is gone."""
        found: list[int] = []
        for folder, _names, _files in os.walk(self.stopper):
            try:
                text = (Path(folder) / "cgroup.procs").read_bytes()
            except OSError:
                continue
            found += map(int, text.split())
        return found


def _membership(pid: int) -> Iterator[tuple[str, str]]:
    """Yield controller and path; version 2 has the empty controller."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path
