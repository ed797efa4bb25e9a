"""The room of mounts: which verbs a supervisor is told, in which order.

A sandbox's supervisor mounts one tmpfs at a path that is the same for every
sandbox and works below it with relative names, so that what a process inside
reads in its mount table names neither a task nor the host's folders:

    u w      writable layer and overlayfs's work folder
    s        layer of mount points that the image lacks, on top of it, under the writable
    l0 l1    the snapshot's layers, the base first
    r        the merged root              h   the harness folder, writable here
    p e      files and an empty folder shown in /proc
    f        the frozen view              g k0 k1 ... the same for verifiers
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from rlvr_envs.confinement import Limits
from rlvr_envs.records import Layer
from rlvr_envs.sandbox.base import (
    AGENT_IDS,
    HARNESS_FOLDER,
    VERIFIER_IDS,
    Bind,
    SandboxSpec,
)
from rlvr_envs.sandbox.idmaps import IDS, IdMaps
from rlvr_envs.sandbox.procfiles import epoch_of, proc_files
from rlvr_envs.sandbox.wire import Packet
from rlvr_envs.snapshots.overlay import is_opaque

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND = 32, 4096

_OVERLAY = "xino=on,redirect_dir=off,metacopy=off,index=off"
_KEPT_PACKETS = 64
_OWN_INODES = 256
_HARNESS_SLACK = 16 << 20
_HARNESS_INODES = 4096
_DEVICES = (
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
)
_DEVICE_LINKS = (
    ("pts/ptmx", "ptmx"),
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
)


class Worlds:
    """Packets that build sandboxes; one that nothing is bound into is kept.

    Writing one takes longer than the trainer's share of a whole reset, and the
    sandboxes of a group differ in nothing but their control groups and their
    harness's first files.
    """

    def __init__(self, room: Path, maps: IdMaps) -> None:
        self._room = room
        self._maps = maps
        self._kept: dict[tuple[object, ...], Packet] = {}

    def packet(self, spec: SandboxSpec) -> Packet:
        """Return what builds a sandbox; nobody may add to it."""
        layers = spec.snapshot.layers
        if spec.binds or any(layer.shifted for layer in layers):
            return self._made(spec)
        key = (
            layers,
            spec.confinement.limits,
            epoch_of(spec),
            spec.hostname,
            spec.id_base,
            spec.targets,
            len(os.sched_getaffinity(0)),
        )
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _KEPT_PACKETS:
                self._kept.clear()
            found = self._kept[key] = self._made(spec)
        return found

    def _made(self, spec: SandboxSpec) -> Packet:
        packet = Packet()
        world(packet, spec, self._room, self._maps)
        return packet


def world(packet: Packet, spec: SandboxSpec, room: Path, maps: IdMaps) -> None:
    """Append what builds a sandbox's root; `entry` follows."""
    base = spec.id_base
    layers = spec.snapshot.layers
    packet.add("ids", f"0 {base} {IDS}")
    packet.add("birth", epoch_of(spec))
    _room(packet, spec.confinement.limits, room, len(layers))
    _layers(packet, layers, base, maps, "l")
    top = _mount_points(packet, spec)
    packet.add("like", f"l{len(layers) - 1}", "u")
    lower = _lower(top, "l", len(layers))
    options = f"lowerdir={lower},upperdir=u,workdir=w,{_OVERLAY}"
    packet.add("mount", "overlay", "r", MS_NOSUID | MS_NODEV, options)
    _devices(packet, base)
    _harness(packet, spec.confinement.limits, base)
    for bind in spec.binds:
        ids = _bind_ids(packet, bind, base, maps)
        packet.add("tree", ids, bind.source, f"r/{_inside(bind.target)}")
    for name, text in proc_files(spec).items():
        packet.add("file", f"p/{name.replace('/', '!')}", "444", base, text)
    packet.add("age", "r/dev", "age", "h", "age", "e")


def entry(packet: Packet, spec: SandboxSpec, room: Path) -> None:
    """Append what writes the harness's first files and lets init enter its root."""
    for name, data in spec.files.items():
        packet.add("replace", "h", name, spec.id_base, epoch_of(spec), 0, data)
    packet.add("go", room, spec.hostname)


def attachment(packet: Packet, bind: Bind, base: int, maps: IdMaps) -> None:
    """Append what shows a folder inside a running sandbox."""
    ids = _bind_ids(packet, bind, base, maps)
    packet.add("attach", ids, bind.source, f"/{_inside(bind.target)}")


def frozen_view(packet: Packet, layer_count: int) -> None:
    """Append what shows the final root read-only at ``f``; after `unmerge`."""
    packet.add("stage", "f")
    options = f"lowerdir={_lower(['u'], 'l', layer_count)},{_OVERLAY}"
    packet.add("mount", "overlay", "f", _SEALED, options)


def verifier_view(
    packet: Packet, layers: Sequence[Layer], upper: Path, maps: IdMaps
) -> None:
    """Append what shows the final root at ``g``, its owners moved to `VERIFIER_IDS`.

    An overlay cannot be idmapped, so its layers are.
    """
    _layers(packet, layers, VERIFIER_IDS, maps, "k")
    packet.add("stage", "ku")
    moved = packet.place(maps.between(AGENT_IDS, VERIFIER_IDS))
    packet.add("tree", moved, upper, "ku")
    packet.add("stage", "g")
    options = f"lowerdir={_lower(['ku'], 'k', len(layers))},{_OVERLAY}"
    packet.add("mount", "overlay", "g", _SEALED, options)


def storage(packet: Packet, limits: Limits, room: Path, source: Path) -> None:
    """Append what copies a writable layer into a room of its own."""
    _room(packet, limits, room, 0)
    packet.add("copy", source, "u")


def probe(packet: Packet, room: Path, folder: Path, maps: IdMaps) -> None:
    """Append a small overlay over an idmapped folder, to see whether it can be had."""
    _room(packet, Limits(), room, 1)
    packet.add("stage", "l0")
    packet.add("tree", packet.place(maps.between(0, AGENT_IDS)), folder, "l0")
    options = f"lowerdir=l0,upperdir=u,workdir=w,{_OVERLAY}"
    packet.add("mount", "overlay", "r", MS_NOSUID | MS_NODEV, options)


def system_probe(packet: Packet, room: Path, maps: IdMaps) -> None:
    """Append a writable layer with its owners moved, as `verifier_view` needs it."""
    _room(packet, Limits(), room, 0)
    moved = packet.place(maps.between(AGENT_IDS, VERIFIER_IDS))
    packet.add("tree", moved, "u", "ku")


_SEALED = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC


def _room(packet: Packet, limits: Limits, room: Path, layers: int) -> None:
    """Make the tmpfs, and all mount points: an agent may use its last inode."""
    inodes = limits.inodes + _OWN_INODES + layers
    options = f"size={limits.disk_bytes},nr_inodes={inodes},mode=755"
    packet.add("room", room, options)
    for name in ("u", "w", "s", "r", "h", "p", "e", "f", "g", "ku"):
        packet.add("stage", name)
    for number in range(layers):
        packet.add("stage", f"k{number}")


def _layers(
    packet: Packet, layers: Sequence[Layer], base: int, maps: IdMaps, prefix: str
) -> None:
    for number, layer in enumerate(layers):
        stored = AGENT_IDS if layer.shifted else 0
        ids = packet.place(maps.between(stored, base))
        packet.add("stage", f"{prefix}{number}")
        packet.add("tree", ids, layer.path, f"{prefix}{number}")


def _lower(top: list[str], prefix: str, count: int) -> str:
    return ":".join([*top, *(f"{prefix}{n}" for n in reversed(range(count)))])


def _mount_points(packet: Packet, spec: SandboxSpec) -> list[str]:
    """Append what makes the missing mount points; return the layer that has them."""
    layers = spec.snapshot.layers
    folders = ["proc", "dev", "sys", _inside(HARNESS_FOLDER)]
    folders += [_inside(target) for target in spec.targets]
    files: list[str] = []
    for bind in spec.binds:
        kind = files if bind.source.is_file() else folders
        kind.append(_inside(bind.target))
    if not files and all(_is_plain_folder(layers, path) for path in folders):
        return []
    for path in folders:
        packet.add("point", path, len(layers), spec.id_base, "folder")
    for path in files:
        packet.add("point", path, len(layers), spec.id_base, "file")
    packet.add("like", f"l{len(layers) - 1}", "s")
    return ["s"]


def _is_plain_folder(layers: Sequence[Layer], path: str) -> bool:
    """Whether the merged root has a folder there for certain.

    An upper layer of an episode may hide what is below it; such a snapshot gets mount
    points of its own.
    """
    if any(layer.shifted for layer in layers):
        return False
    parts = [path, *map(str, PurePosixPath(path).parents)][:-1]
    return all(_is_folder_throughout(layers, part) for part in parts)


def _is_folder_throughout(layers: Sequence[Layer], path: str) -> bool:
    """Whether at least one layer has a folder there, and none anything else."""
    found = [
        layer.path / path for layer in layers if os.path.lexists(layer.path / path)
    ]
    return bool(found) and all(
        place.is_dir() and not place.is_symlink() and not is_opaque(place)
        for place in found
    )


def _devices(packet: Packet, base: int) -> None:
    options = f"mode=755,uid={base},gid={base},size=64k,nr_inodes=64"
    packet.add("mount", "tmpfs", "r/dev", MS_NOSUID | MS_NOEXEC, options)
    for name, major, minor in _DEVICES:
        packet.add("node", f"r/dev/{name}", major, minor, base)
    for text, name in _DEVICE_LINKS:
        packet.add("link", text, f"r/dev/{name}", base)
    packet.add("folder", "r/dev/pts", "755", base, "folder", "r/dev/shm", "1777", base)
    options = f"mode=1777,uid={base},gid={base},size=64m,nr_inodes=4096"
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    packet.add("mount", "tmpfs", "r/dev/shm", flags, options)


def _harness(packet: Packet, limits: Limits, base: int) -> None:
    """Room for a spool and the one that replaces it."""
    size = 2 * limits.spool_bytes + _HARNESS_SLACK
    options = f"mode=755,uid={base},gid={base},size={size},nr_inodes={_HARNESS_INODES}"
    packet.add("mount", "tmpfs", "h", MS_NOSUID | MS_NODEV, options)
    packet.add("tree", "-", "h", f"r/{_inside(HARNESS_FOLDER)}")


def _bind_ids(packet: Packet, bind: Bind, base: int, maps: IdMaps) -> str:
    """Owners must follow a reowned bind; a host folder's do where they can."""
    if bind.reowned:
        return packet.place(maps.between(AGENT_IDS, base))
    return packet.place(maps.between(0, base)) + "?"


def _inside(target: str) -> str:
    """Return an absolute path of the sandbox relative to its root.

    Raises:
        ValueError: If it is not absolute, or climbs.
    """
    path = os.path.normpath(target).lstrip("/")
    if not target.startswith("/") or not path or ".." in target.split("/"):
        raise ValueError(f"A mount target is an absolute path, not {target!r}.")
    return path
