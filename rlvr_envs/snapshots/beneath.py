"""Paths inside a tree: resolved beneath its root, as a chroot would."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

from rlvr_envs.errors import SnapshotError

LINKS_MAX = 40


def resolve_parent(root: Path, path: str) -> Path:
    """Return the host path that a name inside stands for, its own link unfollowed.

    Links in its parents are followed, absolute ones from the root; ``..`` never
    leaves the root. Folders that are missing are taken as they are written.

    Args:
        root: Host folder.
        path: Absolute or relative path inside; ``..`` is allowed.

    Raises:
        SnapshotError: If links go round in circles.
    """
    return root / resolve_over([root], path)


def resolve_over(roots: Sequence[Path], path: str) -> str:
    """Resolve a name as `resolve_parent` does, in several trees seen as one.

    Args:
        roots: The top one first: what it has covers what the others have.
        path: Absolute or relative path inside.

    Returns:
        Relative path without links in its parents; empty for the root itself.

    Raises:
        SnapshotError: If links go round in circles.
    """
    parts = _parts(path)
    name = parts.pop() if parts else ""
    here: list[str] = []
    links = 0
    while parts:
        part = parts.pop(0)
        if part == "..":
            here = here[:-1]
            continue
        target = _target([root.joinpath(*here, part) for root in roots])
        if target is None:
            here.append(part)
            continue
        links += 1
        if links > LINKS_MAX:
            raise SnapshotError(f"Links go round in circles at {path!r}.")
        here = [] if target.startswith("/") else here
        parts = _parts(target) + parts
    return "/".join(here[:-1] if name == ".." else [*here, name])


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _target(paths: Sequence[Path]) -> str | None:
    for path in paths:
        try:
            info = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        return str(path.readlink()) if stat.S_ISLNK(info.st_mode) else None
    return None
