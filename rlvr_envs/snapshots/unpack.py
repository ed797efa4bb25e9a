"""Tar streams laid into a folder, whatever they hold, without leaving it."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rlvr_envs.errors import SnapshotError
from rlvr_envs.snapshots.beneath import resolve_parent
from rlvr_envs.snapshots.tree import CHUNK_BYTES

XATTR = "SCHILY.xattr."
KEPT_XATTRS = ("user.", "security.capability")
WHITEOUT = ".wh."
OPAQUE_NAME = ".wh..wh..opq"


@dataclass(slots=True)
class Unpacker:
    """Lays members of archives into one folder; `finish` when all are there.

    Owners, modes, times, hard links and extended attributes come along. Names are
    resolved beneath the folder: neither ``..`` nor a link leads out of it.
    """

    root: Path
    times: dict[Path, int] = field(default_factory=dict)

    def take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Lay one member; what had its name is replaced, a folder is kept.

        Raises:
            SnapshotError: If the member has a name or a type that no tree holds.
        """
        target = self._target(member.name)
        if target == self.root:
            self._dress(target, member)
            return
        kind = next((kind for kind in _MAKERS if kind(member)), None)
        if kind is None:
            raise SnapshotError(f"The archive holds {member.name!r} of unknown type.")
        self._clear(target, keep_folder=member.isdir())
        _MAKERS[kind](self, archive, member, target)
        if not member.islnk():
            self._dress(target, member)

    def hide(self, member: tarfile.TarInfo) -> None:
        """Apply a member if it says that something of an earlier layer is gone."""
        folder, _, name = member.name.rpartition("/")
        if name == OPAQUE_NAME:
            place = self._target(f"{folder}/.") if folder else self.root
            if place.is_dir() and not place.is_symlink():
                for path in place.iterdir():
                    _remove(path)
        elif name.startswith(WHITEOUT):
            _remove(self._target(f"{folder}/{name.removeprefix(WHITEOUT)}"))

    def finish(self) -> None:
        """Set the times of folders, which filling them disturbs."""
        for target, moment in self.times.items():
            if target.is_dir() and not target.is_symlink():
                _set_time(target, moment)

    def _target(self, name: str) -> Path:
        if ".." in name.split("/"):
            raise SnapshotError(
                f"The archive holds the name {name!r}, which leads out."
            )
        return resolve_parent(self.root, name)

    def _clear(self, target: Path, *, keep_folder: bool) -> None:
        _make_parents(target, self.root)
        is_folder = target.is_dir() and not target.is_symlink()
        if not (is_folder and keep_folder):
            _remove(target)

    def _dress(self, target: Path, member: tarfile.TarInfo) -> None:
        os.chown(target, member.uid, member.gid, follow_symlinks=False)
        if not member.issym():
            target.chmod(stat.S_IMODE(member.mode))
            _set_attributes(target, member)
        moment = int(member.mtime)
        if member.isdir():
            self.times[target] = moment
        _set_time(target, moment)

    def make_file(
        self, archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path
    ) -> None:
        """Copy a regular file's bytes."""
        source = archive.extractfile(member)
        with target.open("xb") as made:
            while source is not None and (chunk := source.read(CHUNK_BYTES)):
                made.write(chunk)

    def make_folder(
        self, _archive: tarfile.TarFile, _member: tarfile.TarInfo, target: Path
    ) -> None:
        """Make a folder, or keep the one that is there."""
        target.mkdir(exist_ok=True)

    def make_link(
        self, _archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path
    ) -> None:
        """Make a symbolic link."""
        target.symlink_to(member.linkname)

    def make_hard_link(
        self, _archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path
    ) -> None:
        """Make another name of a file that was laid before."""
        first = self._target(member.linkname)
        try:
            os.link(first, target, follow_symlinks=False)
        except FileNotFoundError:
            raise SnapshotError(
                f"The archive links {member.name!r} to {member.linkname!r}, which it "
                "does not hold."
            ) from None

    def make_special(
        self, _archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path
    ) -> None:
        """Make a device or a named pipe."""
        types = {tarfile.CHRTYPE: stat.S_IFCHR, tarfile.BLKTYPE: stat.S_IFBLK}
        kind = types.get(member.type, stat.S_IFIFO)
        device = os.makedev(member.devmajor, member.devminor)
        os.mknod(target, kind | 0o600, device)


_Maker = Callable[[Unpacker, tarfile.TarFile, tarfile.TarInfo, Path], None]

_MAKERS: dict[Callable[[tarfile.TarInfo], bool], _Maker] = {
    tarfile.TarInfo.isfile: Unpacker.make_file,
    tarfile.TarInfo.isdir: Unpacker.make_folder,
    tarfile.TarInfo.issym: Unpacker.make_link,
    tarfile.TarInfo.islnk: Unpacker.make_hard_link,
    tarfile.TarInfo.isdev: Unpacker.make_special,
}


def _make_parents(target: Path, root: Path) -> None:
    parent = target.parent
    if parent == root or parent.is_dir():
        return
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        name = target.relative_to(root)
        raise SnapshotError(f"The archive lays {name} beneath a file.") from None


def _set_attributes(target: Path, member: tarfile.TarInfo) -> None:
    for key, value in member.pax_headers.items():
        name = key.removeprefix(XATTR)
        if key.startswith(XATTR) and name.startswith(KEPT_XATTRS):
            os.setxattr(target, name, value.encode("utf-8", "surrogateescape"))


def _set_time(target: Path, moment_s: int) -> None:
    os.utime(target, (moment_s, moment_s), follow_symlinks=False)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
