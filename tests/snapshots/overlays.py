"""Real overlay mounts of small trees, and a plain model of what a tree is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rlvr_envs.snapshots.tree import walk


def can_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None


needs_mount = pytest.mark.skipif(not can_mount(), reason="mounting needs root")


@contextmanager
def overlay(
    work: Path, lowers: Sequence[Path], *, owner: int = 100_000
) -> Iterator[tuple[Path, Path]]:
    """Mount an overlay whose upper lies on tmpfs; give its merged root and its upper."""
    disk, merged = work / "disk", work / "merged"
    disk.mkdir()
    merged.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)], check=True
    )
    try:
        for name in ("upper", "work"):
            (disk / name).mkdir()
        os.chown(disk / "upper", owner, owner)
        stack = ":".join(str(path) for path in reversed(lowers))
        options = f"lowerdir={stack},upperdir={disk}/upper,workdir={disk}/work"
        subprocess.run(
            ["mount", "-t", "overlay", "-o", options, "overlay", str(merged)],
            check=True,
        )
        try:
            yield merged, disk / "upper"
        finally:
            subprocess.run(["umount", str(merged)], check=True)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
        with suppress(OSError):
            disk.rmdir()
            merged.rmdir()


def picture(root: Path, *, shift: int = 0) -> dict[str, tuple[object, ...]]:
    """What a tree is, as far as a change of it would count."""
    seen: dict[str, tuple[object, ...]] = {}
    for entry in walk(root):
        path = root / entry.path
        content: object = None
        if entry.kind == "file":
            content = path.read_bytes()
        elif entry.kind == "link":
            content = str(path.readlink())
        info = entry.info
        owner = (info.st_uid - shift, info.st_gid - shift)
        seen[f"/{entry.path}"] = (entry.kind, content, info.st_mode, owner)
    return seen
