"""Control groups, version 1, version 2 and both at once, behind one class.

Each sandbox has one folder per hierarchy, ``rlvr-envs/<name>``; it holds what the
sandbox may use, tells who is in it, and stops them all.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from rlvr_envs.confinement import Limits
from rlvr_envs.errors import MissingRequirement, SandboxError
from rlvr_envs.sandbox.wire import Packet

FOLDER = "rlvr-envs"
"""Ours in each hierarchy."""

_CONTROLLERS = ("memory", "pids", "cpu")
_NEEDED = ("memory", "pids")
_INIT_PIDS = 1
_REMOVE_S = 5.0


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where the control groups of this machine are mounted.

    Attributes:
        unified: Mount of version 2, if there is one.
        on_unified: Controllers that version 2 has.
        legacy: Controller to mount, version 1.
    """

    unified: Path | None
    on_unified: frozenset[str] = frozenset()
    legacy: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def of(cls, mountinfo: str) -> Hierarchies:
        """Read them from the text of ``/proc/self/mountinfo``."""
        unified: Path | None = None
        legacy: dict[str, Path] = {}
        for line in mountinfo.splitlines():
            left, _, right = line.partition(" - ")
            kind, _, options = right.split(" ", 2)
            where = Path(left.split(" ")[4])
            if kind == "cgroup2":
                unified = unified or where
            elif kind == "cgroup":
                for name in options.split(","):
                    legacy.setdefault(name, where)
        return cls(unified, _controllers(unified), legacy)

    @classmethod
    def here(cls) -> Hierarchies:
        """Read this machine's.

        Raises:
            MissingRequirement: If processes or memory cannot be bounded here.
        """
        found = cls.of(Path("/proc/self/mountinfo").read_text())
        for name in _NEEDED:
            if name not in found.on_unified and name not in found.legacy:
                raise MissingRequirement(
                    f"No control group hierarchy here has the {name} controller.",
                    remedy="mount cgroup v2 at /sys/fs/cgroup, writable "
                    "(in a container: --privileged --cgroupns=host).",
                )
        if found.unified is None and "freezer" not in found.legacy:
            raise MissingRequirement(
                "No control group hierarchy here can freeze processes.",
                remedy="mount cgroup v2, or the v1 freezer.",
            )
        return found

    def legacy_folders(self) -> dict[str, Path]:
        """Return the version 1 hierarchies that a sandbox takes part in."""
        wanted = [name for name in _CONTROLLERS if name not in self.on_unified]
        if self.unified is None:
            wanted.append("freezer")
        return {name: self.legacy[name] for name in wanted if name in self.legacy}

    def roots(self) -> list[Path]:
        """Return our folder in each hierarchy, each once."""
        mounts = list(self.legacy_folders().values())
        if self.unified is not None:
            mounts.insert(0, self.unified)
        return [mount / FOLDER for mount in dict.fromkeys(mounts)]

    def prepare(self) -> None:
        """Make our folders and hand the controllers down to them.

        Raises:
            MissingRequirement: If this process may not.
        """
        try:
            for root in self.roots():
                root.mkdir(exist_ok=True)
            if self.unified is not None:
                wanted = [c for c in _CONTROLLERS if c in self.on_unified]
                _hand_down(self.unified, wanted)
                _hand_down(self.unified / FOLDER, wanted)
        except OSError as error:
            raise MissingRequirement(
                f"Control groups cannot be made here: {error}.",
                remedy="run as root with a writable cgroup mount; in a container that "
                "has its own cgroup namespace, move its processes into a child group "
                "first, or start it with --cgroupns=host.",
            ) from error


def _controllers(unified: Path | None) -> frozenset[str]:
    if unified is None:
        return frozenset()
    try:
        return frozenset((unified / "cgroup.controllers").read_text().split())
    except OSError:
        return frozenset()


def _hand_down(folder: Path, controllers: list[str]) -> None:
    control = folder / "cgroup.subtree_control"
    have = control.read_text().split() if controllers else []
    missing = [name for name in controllers if name not in have]
    if missing:
        control.write_text(" ".join(f"+{name}" for name in missing))


def _limits_unified(limits: Limits) -> Iterator[tuple[str, str, int, bool]]:
    yield "memory", "memory.max", limits.memory_bytes, True
    yield "memory", "memory.swap.max", 0, False
    yield "pids", "pids.max", limits.pids + _INIT_PIDS, True
    yield "cpu", "cpu.weight", min(limits.cpu_weight, 10_000), True


def _limits_legacy(limits: Limits) -> Iterator[tuple[str, str, int, bool]]:
    yield "memory", "memory.limit_in_bytes", limits.memory_bytes, True
    yield "memory", "memory.memsw.limit_in_bytes", limits.memory_bytes, False
    yield "pids", "pids.max", limits.pids + _INIT_PIDS, True
    yield "cpu", "cpu.shares", max(2, limits.cpu_weight * 1024 // 100), True


_PAGE_BYTES = 4096
"""What the kernel gives of a list of processes in one read."""


class Group:
    """The control group of one sandbox, in every hierarchy that matters."""

    def __init__(self, hierarchies: Hierarchies, name: str) -> None:
        self._hierarchies = hierarchies
        self.name = name
        below = f"{FOLDER}/{name}"
        unified = hierarchies.unified
        self.unified = unified / below if unified is not None else None
        self.legacy = {
            controller: mount / below
            for controller, mount in hierarchies.legacy_folders().items()
        }
        self._list: FileIO | None = None

    @property
    def folders(self) -> list[Path]:
        """Every folder of the group, each once."""
        unified = [self.unified] if self.unified is not None else []
        return list(dict.fromkeys([*unified, *self.legacy.values()]))

    @property
    def joins(self) -> list[str]:
        """Files that a pid is written to; those of version 2 are cloned into."""
        folders = dict.fromkeys(self.legacy.values())
        return [f"{folder}/cgroup.procs" for folder in folders]

    @property
    def stopper(self) -> Path:
        """The folder whose processes are frozen, killed and counted."""
        return self.unified if self.unified is not None else self.legacy["freezer"]

    def creation(self, packet: Packet) -> None:
        """Append what makes the folders, and removes them at the sandbox's end."""
        for folder in self.folders:
            packet.add("group", folder)
        if self.unified is not None and "cpu" in self._hierarchies.on_unified:
            packet.add("weigh", self.unified.parent, "cpu.weight", 100, 10_000)
        elif "cpu" in self.legacy:
            packet.add("weigh", self.legacy["cpu"].parent, "cpu.shares", 1024, 262_144)

    def limitation(self, packet: Packet, limits: Limits) -> None:
        """Append what sets the ceilings; init comes on top of the process limit."""
        on_unified = self._hierarchies.on_unified
        for controller, file, value, needed in _limits_unified(limits):
            if self.unified is not None and controller in on_unified:
                packet.add("limit", f"{self.unified}/{file}", value, int(needed))
        for controller, file, value, needed in _limits_legacy(limits):
            if controller in self.legacy:
                folder = self.legacy[controller]
                packet.add("limit", f"{folder}/{file}", value, int(needed))

    def members(self) -> list[int]:
        """Return the pids in the group, as this process's namespace has them."""
        try:
            text = self._read_members()
        except (FileNotFoundError, OSError) as error:
            if error.errno in (errno.ENOENT, errno.ENODEV):
                return []
            raise
        return [int(line) for line in text.split()]

    def _read_members(self) -> bytes:
        """Version 2 lists anew on a file that is kept open; version 1 does not."""
        if self.unified is None:
            return (self.stopper / "cgroup.procs").read_bytes()
        if self._list is None:
            self._list = FileIO(self.unified / "cgroup.procs")
        parts = [b""]
        while part := os.pread(self._list.fileno(), _PAGE_BYTES, sum(map(len, parts))):
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        """Close what is kept open; idempotent."""
        if self._list is not None:
            self._list.close()
            self._list = None

    def remove(self) -> None:
        """Remove the folders of a group without members; missing ones are fine.

        Raises:
            SandboxError: If one is still in use after some seconds.
        """
        self.close()
        deadline = time.monotonic() + _REMOVE_S
        for folder in self.folders:
            _remove(folder, deadline)


def _remove(folder: Path, deadline: float) -> None:
    while True:
        try:
            os.rmdir(folder)  # noqa: PTH106 - a control group is no ordinary folder
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise SandboxError(
                    f"A control group cannot be removed: {error}."
                ) from error
            time.sleep(0.0005)
        else:
            return
