"""A sandbox's writable layer, copied into a stored layer with plain ids."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path

from rlvr_envs.errors import SnapshotError, boundary
from rlvr_envs.snapshots.overlay import (
    AGENT_ID_BASE,
    OPAQUE,
    is_opaque,
    is_whiteout,
)
from rlvr_envs.snapshots.tree import CHUNK_BYTES, Entry, opened, walk

USER_PREFIX = "user."


def seal(
    upper: Path,
    destination: Path,
    *,
    latest_s: int,
    id_base: int = AGENT_ID_BASE,
) -> None:
    """Lay an overlay's upper onto a layer, as one layer that means both.

    Whiteouts and opaque folders are kept, and take away what the destination had.
    Hard links within the upper stay hard links. Of extended attributes, those of
    users are kept.

    Args:
        upper: Writable layer that nobody writes to any more, with host ids.
        destination: Folder of a layer with plain ids; may hold files already.
        latest_s: Younger modification times become this one, in seconds, UTC.
        id_base: Host id of the sandbox's uid 0.

    Raises:
        SnapshotError: If a file's owner lies outside the sandbox's range.
    """
    with boundary(SnapshotError, "sealing a sandbox's files as a layer"):
        copy = _Seal(destination, latest_s * 1_000_000_000, id_base)
        for entry in walk(upper):
            copy.take(entry)
        copy.finish(upper.stat())


@dataclass(slots=True)
class _Seal:
    destination: Path
    latest_ns: int
    id_base: int
    links: dict[int, Path] = field(default_factory=dict)
    folders: list[tuple[Path, os.stat_result]] = field(default_factory=list)

    def take(self, entry: Entry) -> None:
        """Copy one entry; its folder is there already."""
        target = self.destination / entry.path
        if entry.kind == "dir":
            self._folder(entry, target)
            return
        _remove(target)
        if is_whiteout(entry.info):
            os.mknod(target, stat.S_IFCHR, 0)
            self._set_time(target, entry.info)
            return
        first = self.links.get(entry.info.st_ino)
        if first is not None:
            os.link(first, target, follow_symlinks=False)
            return
        if entry.info.st_nlink > 1:
            self.links[entry.info.st_ino] = target
        self._make(entry, target)
        self._dress(target, entry.info)

    def finish(self, root: os.stat_result) -> None:
        """Set what filling a folder disturbs, the root's own facts among it."""
        for target, info in reversed(self.folders):
            self._dress(target, info)
        self._dress(self.destination, root)

    def _folder(self, entry: Entry, target: Path) -> None:
        with opened(entry) as descriptor:
            opaque = is_opaque(descriptor)
        kept = target.is_dir() and not target.is_symlink() and not opaque
        if not kept:
            _remove(target)
            target.mkdir()
        if opaque:
            os.setxattr(target, OPAQUE, b"y")
        self.folders.append((target, entry.info))

    def _make(self, entry: Entry, target: Path) -> None:
        if entry.kind == "file":
            _copy(entry, target)
        elif entry.kind == "link":
            target.symlink_to(os.readlink(entry.name, dir_fd=entry.folder))
        else:
            os.mknod(target, entry.info.st_mode, entry.info.st_rdev)

    def _dress(self, target: Path, info: os.stat_result) -> None:
        owner = (info.st_uid - self.id_base, info.st_gid - self.id_base)
        if not all(0 <= number < 65_536 for number in owner):
            raise SnapshotError(
                f"{target.name!r} belongs to {info.st_uid}:{info.st_gid}, outside the "
                f"sandbox's range from {self.id_base}."
            )
        os.chown(target, *owner, follow_symlinks=False)
        if not stat.S_ISLNK(info.st_mode):
            target.chmod(stat.S_IMODE(info.st_mode))
        self._set_time(target, info)

    def _set_time(self, target: Path, info: os.stat_result) -> None:
        moment = min(info.st_mtime_ns, self.latest_ns)
        moment -= moment % 1_000_000_000
        os.utime(target, ns=(moment, moment), follow_symlinks=False)


def _copy(entry: Entry, target: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    made = os.open(target, flags, 0o600)
    try:
        with opened(entry) as source:
            while chunk := os.read(source, CHUNK_BYTES):
                _write_all(made, chunk)
            for name in os.listxattr(source):
                if name.startswith(USER_PREFIX):
                    os.setxattr(made, name, os.getxattr(source, name))
    finally:
        os.close(made)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
