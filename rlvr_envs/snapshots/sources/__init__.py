"""Where the files of an image come from, one module a kind of source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rlvr_envs.errors import CallerError
from rlvr_envs.snapshots.sources.base import Source
from rlvr_envs.snapshots.sources.docker import DockerSource
from rlvr_envs.snapshots.sources.folder import FolderSource
from rlvr_envs.snapshots.sources.oci import OciSource

KINDS: dict[str, Callable[[str], Source]] = {
    "docker": DockerSource,
    "oci": lambda place: _oci(place),
    "folder": lambda place: FolderSource(Path(place)),
}


def source_from(text: str) -> Source:
    """Read ``docker:REFERENCE``, ``oci:FILE[@sha256:...]`` or ``folder:DIR``.

    Raises:
        CallerError: If it is none of these.
    """
    kind, _, place = text.partition(":")
    if kind not in KINDS or not place:
        raise CallerError(
            f"{text!r} names no source of an image.",
            remedy="write docker:REFERENCE, oci:FILE[@sha256:...] or folder:DIR.",
        )
    return KINDS[kind](place)


def _oci(place: str) -> Source:
    path, mark, digest = place.partition("@sha256:")
    return OciSource(Path(path), digest=f"sha256:{digest}" if mark else "")
