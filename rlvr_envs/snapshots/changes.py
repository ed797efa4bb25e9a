"""What an episode changed: an overlay's upper layer against the layers below it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlvr_envs.errors import SnapshotError, boundary
from rlvr_envs.records import Layer
from rlvr_envs.snapshots.overlay import (
    AGENT_ID_BASE,
    OWN_PREFIX,
    UP_FLAGS,
    Below,
    MergedBelow,
    is_opaque,
    is_whiteout,
)
from rlvr_envs.snapshots.tree import (
    CHUNK_BYTES,
    FILE_FLAGS,
    FOLDER_FLAGS,
    KINDS,
)
from rlvr_envs.state import Change

FEW = 32
"""Names in a folder up to which each is looked for by itself."""

LONGEST = 4096
"""Characters of a path beyond which a folder is named, but not entered.

No program opens what lies deeper by its path, and the paths of all folders of a deep
tree together take gigabytes.
"""


def changes(
    upper: Path, layers: Sequence[Layer], *, id_base: int = AGENT_ID_BASE
) -> tuple[Change, ...]:
    """Return every path at which the merged tree differs from the layers' own.

    A copy that overlayfs made and nobody altered is no change, and modification
    times alone are none either. Everything in a removed or covered folder is listed
    one by one, as is everything in an added one, down to paths of `LONGEST`.

    Args:
        upper: Writable layer of an overlay (redirects and metacopy off) that nobody
            writes to any more; ``/proc/<pid>/root/...`` will do.
        layers: What it lies on, the base first.
        id_base: Host id of the sandbox's uid 0, for the upper and shifted layers.

    Returns:
        Sorted by path. Names are taken as they are, undecodable bytes escaped.

    Raises:
        SnapshotError: If a folder cannot be read or changed meanwhile.
    """
    with (
        boundary(SnapshotError, "comparing an episode's files with its snapshot"),
        MergedBelow.over(layers, id_base=id_base) as below,
    ):
        comparison = _Comparison(os.open(upper, UP_FLAGS), below, id_base)
        try:
            comparison.run()
        finally:
            os.close(comparison.folder)
    comparison.found.sort(key=lambda change: change.path)
    return tuple(comparison.found)


@dataclass(slots=True)
class _Comparison:
    """A walk of the upper layer, with the layers below in step.

    Attributes:
        folder: Descriptor of the folder of the upper where the walk stands.
        prefix: Path of that folder, with a slash at its end.
        pending: Subfolders still to be entered, by depth: name, whether in the base.
        opaque_at: Depth from which the layers below no longer show; 0 for none.
    """

    folder: int
    below: MergedBelow
    id_base: int
    prefix: str = "/"
    found: list[Change] = field(default_factory=list)
    pending: list[list[tuple[str, bool]]] = field(default_factory=list)
    opaque_at: int = 0

    def run(self) -> None:
        """Compare everything."""
        self._root()
        self._visit()
        while self.pending:
            if not self.pending[-1]:
                if len(self.pending) == self.opaque_at:
                    self.opaque_at = 0
                self.pending.pop()
                if self.pending:
                    self._leave()
                continue
            name, known = self.pending[-1].pop()
            self._enter(name, known=known)
            self._visit()

    def _root(self) -> None:
        bottom = self.below.floors
        if bottom:
            old = Below(os.fstat(bottom[0].descriptor), -1, bottom[0].shift)
            if self._owned_otherwise(os.fstat(self.folder), old):
                self.found.append(Change("/", "metadata", "dir"))

    def _enter(self, name: str, *, known: bool) -> None:
        child = os.open(name, FOLDER_FLAGS, dir_fd=self.folder)
        os.close(self.folder)
        self.folder = child
        self.prefix += f"{name}/"
        self.below.enter(name if known else None)

    def _leave(self) -> None:
        parent = os.open("..", UP_FLAGS, dir_fd=self.folder)
        os.close(self.folder)
        self.folder = parent
        self.prefix = self.prefix[: self.prefix.rfind("/", 0, -1) + 1]
        self.below.leave()

    def _visit(self) -> None:
        """Compare what is in the folder where the walk stands."""
        folders: list[tuple[str, bool]] = []
        self.pending.append(folders)
        if len(self.prefix) > LONGEST:
            return
        with os.scandir(self.folder) as scanned:
            entries = list(scanned)
        maybe = self._maybe_known(entries)
        for entry in entries:
            old = self.below.find(entry.name) if entry.name in maybe else None
            if old is None:
                self._new(entry, folders)
            else:
                self._old(entry.name, old, folders)
        if not self.opaque_at and is_opaque(self.folder):
            self.opaque_at = len(self.pending)
        if self.opaque_at:
            self._covered({entry.name for entry in entries})

    def _maybe_known(self, entries: list[os.DirEntry[str]]) -> Container[str]:
        """Return names among which are all that the layers have here."""
        if self.below.empty:
            return ()
        names = {entry.name for entry in entries}
        # To ask for each of many names costs more than to list the folder once.
        return names if len(names) <= FEW else self.below.listed()

    def _new(self, entry: os.DirEntry[str], folders: list[tuple[str, bool]]) -> None:
        """Note a name that the layers do not have; mostly without a call."""
        if entry.is_dir(follow_symlinks=False):
            folders.append((entry.name, False))
            kind = "dir"
        elif entry.is_symlink():
            kind = "link"
        elif entry.is_file(follow_symlinks=False):
            kind = "file"
        else:
            info = entry.stat(follow_symlinks=False)
            if is_whiteout(info):
                return
            kind = _kind(info)
        self.found.append(Change(self.prefix + entry.name, "added", kind))

    def _old(self, name: str, old: Below, folders: list[tuple[str, bool]]) -> None:
        """Compare a name that the layers have."""
        info = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
        if is_whiteout(info):
            self._gone(name, old)
            return
        self._compare(name, info, old)
        if stat.S_ISDIR(info.st_mode):
            folders.append((name, _is_folder(old)))

    def _compare(self, name: str, info: os.stat_result, old: Below) -> None:
        path, kind = self.prefix + name, _kind(info)
        if kind != _kind(old.info):
            self.found.append(Change(path, "modified", kind))
            self._gone_inside(name, old)
        elif not _SAME[kind](_Pair(name, self.folder, info, old)):
            self.found.append(Change(path, "modified", kind))
        elif self._owned_otherwise(info, old) or self._marked_otherwise(name, old):
            self.found.append(Change(path, "metadata", kind))

    def _owned_otherwise(self, info: os.stat_result, old: Below) -> bool:
        new = (info.st_uid - self.id_base, info.st_gid - self.id_base, info.st_mode)
        was = (old.info.st_uid - old.shift, old.info.st_gid - old.shift)
        return new != (*was, old.info.st_mode)

    def _marked_otherwise(self, name: str, old: Below) -> bool:
        if not stat.S_ISREG(old.info.st_mode):
            return False
        return _marks(name, self.folder) != _marks(name, old.folder)

    def _gone(self, name: str, old: Below) -> None:
        self.found.append(Change(self.prefix + name, "removed", _kind(old.info)))
        self._gone_inside(name, old)

    def _gone_inside(self, name: str, old: Below) -> None:
        """List everything that a folder held which is no longer one."""
        if not _is_folder(old):
            return
        prefixes = [f"{self.prefix}{name}/"]
        self.below.enter(name)
        stack = [self._gone_here(prefixes[-1])]
        while stack:
            if not stack[-1]:
                stack.pop()
                prefixes.pop()
                self.below.leave()
                continue
            inner = stack[-1].pop()
            prefixes.append(f"{prefixes[-1]}{inner}/")
            self.below.enter(inner)
            stack.append(self._gone_here(prefixes[-1]))

    def _gone_here(self, prefix: str) -> list[str]:
        folders = []
        for name, old in self.below.names():
            self.found.append(Change(prefix + name, "removed", _kind(old.info)))
            if _is_folder(old):
                folders.append(name)
        return folders

    def _covered(self, names: set[str]) -> None:
        for name, old in list(self.below.names()):
            if name not in names:
                self._gone(name, old)


def _kind(info: os.stat_result) -> str:
    return KINDS[stat.S_IFMT(info.st_mode)]


def _is_folder(old: Below) -> bool:
    return stat.S_ISDIR(old.info.st_mode)


@dataclass(frozen=True, slots=True)
class _Pair:
    """The same name and type, above and below."""

    name: str
    folder: int
    info: os.stat_result
    old: Below


def _same_bytes(pair: _Pair) -> bool:
    if pair.info.st_size != pair.old.info.st_size:
        return False
    if not pair.info.st_size:
        return True
    above = os.open(pair.name, FILE_FLAGS, dir_fd=pair.folder)
    below = os.open(pair.name, FILE_FLAGS, dir_fd=pair.old.folder)
    try:
        return _equal(above, below)
    finally:
        os.close(above)
        os.close(below)


def _equal(above: int, below: int) -> bool:
    while True:
        chunk = os.read(above, CHUNK_BYTES)
        if chunk != os.read(below, CHUNK_BYTES):
            return False
        if not chunk:
            return True


def _same_target(pair: _Pair) -> bool:
    above = os.readlink(pair.name, dir_fd=pair.folder)
    return above == os.readlink(pair.name, dir_fd=pair.old.folder)


def _same_device(pair: _Pair) -> bool:
    return pair.info.st_rdev == pair.old.info.st_rdev


_SAME: dict[str, Callable[[_Pair], bool]] = {
    "file": _same_bytes,
    "dir": lambda pair: True,  # noqa: ARG005 - what is inside is compared by itself
    "link": _same_target,
    "device": _same_device,
    "fifo": _same_device,
    "socket": _same_device,
}


def _marks(name: str, folder: int) -> dict[str, bytes]:
    descriptor = os.open(name, FILE_FLAGS, dir_fd=folder)
    try:
        return {
            mark: os.getxattr(descriptor, mark)
            for mark in os.listxattr(descriptor)
            if not mark.startswith(OWN_PREFIX)
        }
    finally:
        os.close(descriptor)
