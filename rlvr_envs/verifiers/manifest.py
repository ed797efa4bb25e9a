"""The SHA-256 manifest: a verifier's files are what they were when the task was read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path


class Altered(Exception):
    """A verifier's file is not the one that was pinned; its text says which."""


def manifest_of(folder: Path) -> dict[str, str]:
    """Return each file's SHA-256 hex digest by its relative POSIX name.

    Raises:
        ValueError: If something in it is no regular file or folder.
    """
    if not folder.is_dir():
        return {}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in _files(folder)
    }


def pin(folder: Path, manifest: Mapping[str, str], target: Path) -> None:
    """Copy a verifier's files, hashing the very bytes that are copied.

    Args:
        folder: The task's verifier folder; may be missing if nothing is pinned.
        manifest: As `manifest_of` gave it when the task was loaded.
        target: Empty folder.

    Raises:
        Altered: If a file is missing, was changed, or was added.
    """
    try:
        present = dict(_files(folder)) if folder.is_dir() else {}
    except ValueError as error:
        raise Altered(str(error)) from None
    if differing := sorted(present.keys() ^ manifest.keys()):
        raise Altered(f"{differing[0]} is not what was pinned")
    for name, path in sorted(present.items()):
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != manifest[name]:
            raise Altered(f"{name} is not what was pinned")
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)
        copy.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _files(folder: Path, prefix: str = "") -> Iterator[tuple[str, Path]]:
    for entry in sorted(os.scandir(folder), key=lambda item: item.name):
        name, mode = f"{prefix}{entry.name}", entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            if entry.name != "__pycache__":
                yield from _files(Path(entry.path), f"{name}/")
        elif stat.S_ISREG(mode):
            yield name, Path(entry.path)
        else:
            raise ValueError(f"{name} is no regular file")
