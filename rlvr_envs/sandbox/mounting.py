"""The mounts that a backend makes from Python, where no launcher does it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from rlvr_envs.errors import SandboxError

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_PRIVATE, MS_SHARED = 32, 4096, 1 << 18, 1 << 20
MNT_DETACH = 2

_LIBC = ctypes.CDLL(None, use_errno=True)


def mount(
    source: Path | str, target: Path, *, kind: str = "", flags: int = 0, data: str = ""
) -> None:
    """Put something in its place in the tree of mounts.

    Raises:
        SandboxError: With what the kernel answered.
    """
    words = (os.fsencode(source), os.fsencode(target), kind.encode())
    if _LIBC.mount(*words, ctypes.c_ulong(flags), data.encode()) != 0:
        code = ctypes.get_errno()
        raise SandboxError(
            f"Mounting {target} failed: {os.strerror(code)}.",
            remedy="Run as root (CAP_SYS_ADMIN).",
        )


def bind_read_only(source: Path, target: Path, *, by: Path) -> None:
    """Show a folder read-only at another place.

    Where the target is shared, its other side gets the mount as it is at first; so
    it is made read-only elsewhere before.

    Args:
        source: What to show.
        target: Where.
        by: An empty folder for the detour; empty again afterwards.
    """
    mount(source, by, flags=MS_BIND)
    try:
        flags = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV
        mount("none", by, flags=flags)
        mount(by, target, flags=MS_BIND)
    finally:
        _LIBC.umount2(os.fsencode(by), MNT_DETACH)


def tmpfs(target: Path, limit_bytes: int) -> None:
    """Mount an empty file system in memory."""
    flags = MS_NOSUID | MS_NODEV
    data = f"size={limit_bytes},mode=755"
    mount("tmpfs", target, kind="tmpfs", flags=flags, data=data)


def share(folder: Path) -> None:
    """Let what is mounted below a mount show wherever it is bound, from now on."""
    mount("none", folder, flags=MS_PRIVATE)
    mount("none", folder, flags=MS_SHARED)


def overlay_read_only(lowers: list[Path], target: Path) -> None:
    """Mount folders as one tree; the first lies on top."""
    stacked = ":".join(str(lower).replace(":", "\\:") for lower in lowers)
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    mount("overlay", target, kind="overlay", flags=flags, data=f"lowerdir={stacked}")


def mounts_below(folder: Path) -> list[Path]:
    """Return mounts at or below a folder, the latest first."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:  # noqa: PTH123 (a stream)
        for line in lines:
            path = Path(line.split(" ")[4].encode().decode("unicode_escape"))
            if path == folder or folder in path.parents:
                found.append(path)
    return found[::-1]


def unmount_below(folder: Path) -> None:
    """Take every mount at or below a folder away, even one that is busy."""
    for path in mounts_below(folder):
        _LIBC.umount2(os.fsencode(path), MNT_DETACH)
