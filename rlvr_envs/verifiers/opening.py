"""Opening what an agent left: resolved beneath a root, regular files, capped.

Names and links in a final root are the agent's. A link is resolved as a chroot
would, magic links and other mounts are refused, and nothing is opened that could
block or act.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path

from rlvr_envs.errors import SnapshotError
from rlvr_envs.snapshots.beneath import LINKS_MAX, resolve_parent

_OPENAT2 = 437
_NO_XDEV, _NO_MAGICLINKS, _IN_ROOT = 0x01, 0x02, 0x10
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LIBC = ctypes.CDLL(None, use_errno=True)

MISSING = (errno.ENOENT, errno.ENOTDIR)


class Refused(Exception):
    """A path was not read.

    Attributes:
        special: Whether something other than a file or a folder stands there.
        missing: Whether nothing stands there.
    """

    def __init__(
        self, reason: str, *, special: bool = False, missing: bool = False
    ) -> None:
        super().__init__(reason)
        self.special = special
        self.missing = missing


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def locate(root: Path, path: str) -> int:
    """Return an O_PATH descriptor of what a path leads to inside a root.

    Args:
        root: Host folder that stands for ``/``.
        path: Absolute, as inside.

    Raises:
        OSError: If it leads nowhere, out of the root, or round in circles.
    """
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _open(root, folder, path.lstrip("/") or ".")
    finally:
        os.close(folder)


def _open(root: Path, folder: int, path: str) -> int:
    how = _How(os.O_PATH | os.O_CLOEXEC, 0, _NO_XDEV | _NO_MAGICLINKS | _IN_ROOT)
    raw = os.fsencode(path)
    fd = _LIBC.syscall(_OPENAT2, folder, raw, ctypes.byref(how), ctypes.sizeof(how))
    if fd >= 0:
        return int(fd)
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EPERM):
        return walk_open(root, path)
    raise OSError(code, os.strerror(code), path)


def walk_open(root: Path, path: str) -> int:
    """Do what `locate` does where the kernel has no ``openat2``.

    Raises:
        OSError: As `locate`.
    """
    for _link in range(LINKS_MAX):
        try:
            found = resolve_parent(root, path)
        except SnapshotError as error:
            raise OSError(errno.ELOOP, str(error), path) from None
        fd = os.open(found, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not stat.S_ISLNK(os.fstat(fd).st_mode):
            return fd
        target = os.readlink("", dir_fd=fd)
        os.close(fd)
        here = "/" + str(found.parent.relative_to(root))
        path = os.path.join(here, target)  # noqa: PTH118 (lexical, inside)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def real_path(root: Path, fd: int) -> str:
    """Return where inside the root a descriptor of `locate` is, absolute."""
    host = str(Path(f"/proc/self/fd/{fd}").readlink())
    top = os.path.realpath(root).rstrip("/")
    if host == (top or "/"):
        return "/"
    if not host.startswith(f"{top}/"):
        raise Refused("it leads out of the final state", special=True)
    return host[len(top) :]


def reopen(fd: int) -> int:
    """Return a readable descriptor of a located regular file or folder.

    Raises:
        Refused: If it is something else.
    """
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise Refused(f"a {kind_of(mode)} stands there", special=True)
    return os.open(f"/proc/self/fd/{fd}", _FLAGS)


def kind_of(mode: int) -> str:
    """Return the word for a file type."""
    names = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "dir",
        stat.S_IFLNK: "link",
        stat.S_IFIFO: "fifo",
        stat.S_IFSOCK: "socket",
    }
    return names.get(stat.S_IFMT(mode), "device")


def read(root: Path, path: str, *, limit_bytes: int) -> bytes:
    """Return the content of a regular file inside a root.

    Raises:
        Refused: If it is missing, no regular file, too large or unreadable.
    """
    try:
        fd = locate(root, path)
    except OSError as error:
        missing = error.errno in MISSING
        word = "is missing" if missing else f"cannot be opened ({error.strerror})"
        raise Refused(f"{path} {word}", missing=missing) from None
    try:
        return read_located(fd, path, limit_bytes=limit_bytes)
    finally:
        os.close(fd)


def read_located(fd: int, path: str, *, limit_bytes: int) -> bytes:
    """Return the content of a located regular file.

    Raises:
        Refused: If it is no regular file or too large.
    """
    info = os.fstat(fd)
    if stat.S_ISDIR(info.st_mode):
        raise Refused(f"{path} is a folder")
    if info.st_size > limit_bytes:
        raise Refused(f"{path} has {info.st_size} bytes; {limit_bytes} are allowed")
    with os.fdopen(reopen(fd), "rb") as file:
        data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise Refused(f"{path} grew past {limit_bytes} bytes")
    return data
