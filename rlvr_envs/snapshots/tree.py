"""Walking a tree beneath its root: digests, stamps, times, sizes."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
CHUNK_BYTES = 1 << 20
KEPT_ATTRIBUTES = ("user.", "security.capability", "trusted.overlay.opaque")

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "dir",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a tree.

    Attributes:
        path: Relative to the root, surrogate-escaped.
        folder: Descriptor of the folder that holds it; good until the walk goes on.
    """

    path: str
    name: str
    info: os.stat_result
    folder: int

    @property
    def kind(self) -> str:
        """One of the values of `KINDS`."""
        return KINDS[stat.S_IFMT(self.info.st_mode)]


def walk(root: Path) -> Iterator[Entry]:
    """Yield everything beneath a folder, parents first, names sorted.

    Links are never followed, and one descriptor at a time is open, so that a tree
    of any depth can be walked. Nothing may change the tree meanwhile.
    """
    folder = os.open(root, FOLDER_FLAGS & ~os.O_NOFOLLOW)
    prefix = ""
    pending = [iter(names_in(folder))]
    try:
        while pending:
            name = next(pending[-1], None)
            if name is None:
                pending.pop()
                prefix = prefix[: prefix.rfind("/", 0, -1) + 1]
                if pending:
                    folder = _move(folder, "..", os.O_RDONLY | os.O_DIRECTORY)
                continue
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            yield Entry(prefix + name, name, info, folder)
            if stat.S_ISDIR(info.st_mode):
                folder = _move(folder, name, FOLDER_FLAGS)
                prefix += f"{name}/"
                pending.append(iter(names_in(folder)))
    finally:
        os.close(folder)


def names_in(folder: int) -> list[str]:
    """Return the names in an open folder, sorted."""
    return sorted(os.listdir(folder))


def _move(folder: int, name: str, flags: int) -> int:
    other = os.open(name, flags | os.O_CLOEXEC, dir_fd=folder)
    os.close(folder)
    return other


def tree_digest(root: Path) -> str:
    """Return ``sha256:...`` over everything that a tree is.

    Paths, types, modes, owners, whole-second modification times, bytes, link
    targets, device numbers and extended attributes count. Access and change times,
    inode numbers, hard links and the order of names on disk do not.
    """
    total = hashlib.sha256()
    _feed(total, [b"/", _header(root.stat())])
    for entry in walk(root):
        _feed(total, _parts(entry))
    return f"sha256:{total.hexdigest()}"


def _feed(total: hashlib._Hash, parts: list[bytes]) -> None:
    total.update(len(parts).to_bytes(4, "big"))
    for part in parts:
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)


def _header(info: os.stat_result) -> bytes:
    kind = KINDS[stat.S_IFMT(info.st_mode)]
    mode = stat.S_IMODE(info.st_mode)
    seconds = info.st_mtime_ns // 1_000_000_000
    return f"{kind} {mode:o} {info.st_uid} {info.st_gid} {seconds}".encode()


def _parts(entry: Entry) -> list[bytes]:
    parts = [os.fsencode(entry.path), _header(entry.info)]
    if entry.kind == "link":
        return [*parts, os.fsencode(os.readlink(entry.name, dir_fd=entry.folder))]
    if entry.kind not in ("file", "dir"):
        return [*parts, str(entry.info.st_rdev).encode()]
    with opened(entry) as descriptor:
        content = file_digest(descriptor) if entry.kind == "file" else b""
        return [*parts, content, *attributes(descriptor)]


class opened:  # noqa: N801 - used like contextlib.closing
    """A descriptor of a file or folder of a walk, closed at the end of the block."""

    def __init__(self, entry: Entry) -> None:
        flags = FOLDER_FLAGS if entry.kind == "dir" else FILE_FLAGS
        self._descriptor = os.open(entry.name, flags, dir_fd=entry.folder)

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *error: object) -> None:
        os.close(self._descriptor)


def file_digest(descriptor: int) -> bytes:
    """Return the SHA-256 of the bytes of an open file, from its start."""
    total = hashlib.sha256()
    offset = 0
    while chunk := os.pread(descriptor, CHUNK_BYTES, offset):
        total.update(chunk)
        offset += len(chunk)
    return total.digest()


def attributes(descriptor: int) -> list[bytes]:
    """Return names and values of extended attributes in turn, sorted by name.

    Only those that belong to the tree: labels of the host's own security modules
    do not.
    """
    found: list[bytes] = []
    for name in sorted(os.listxattr(descriptor)):
        if name.startswith(KEPT_ATTRIBUTES):
            found += [os.fsencode(name), os.getxattr(descriptor, name)]
    return found


def stamp(root: Path) -> str:
    """Return a digest of inode numbers, sizes and change times; reads no file.

    Any write beneath the root changes it, so that equal stamps save reading every
    byte. Copying the tree elsewhere changes it too.
    """
    total = hashlib.sha256()
    for entry in walk(root):
        info = entry.info
        marks = (info.st_ino, info.st_size, info.st_ctime_ns, info.st_mode)
        _feed(total, [os.fsencode(entry.path), repr(marks).encode()])
    return f"sha256:{total.hexdigest()}"


def clamp_times(root: Path, latest_s: int) -> None:
    """Give each entry that is younger than a moment that moment, in whole seconds.

    Times that are not younger lose their fraction of a second.
    """
    for entry in walk(root):
        seconds = min(entry.info.st_mtime_ns // 1_000_000_000, latest_s)
        os.utime(
            entry.name,
            ns=(seconds * 1_000_000_000,) * 2,
            dir_fd=entry.folder,
            follow_symlinks=False,
        )
    seconds = min(root.stat().st_mtime_ns // 1_000_000_000, latest_s)
    os.utime(root, ns=(seconds * 1_000_000_000,) * 2)


@dataclass(frozen=True, slots=True)
class Size:
    """How much a tree holds: entries, and bytes of regular files."""

    entries: int
    content_bytes: int


def size_of(root: Path) -> Size:
    """Count what is beneath a folder."""
    entries = content = 0
    for entry in walk(root):
        entries += 1
        content += entry.info.st_size if entry.kind == "file" else 0
    return Size(entries, content)
