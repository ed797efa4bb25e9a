"""A container's files as the host sees them: final roots, copies, times."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rlvr_envs.errors import SandboxError, boundary
from rlvr_envs.records import Layer, Places, Snapshot, digest_of
from rlvr_envs.sandbox import mounting
from rlvr_envs.sandbox.docker_daemon import sealed
from rlvr_envs.sandbox.owners import owner_name
from rlvr_envs.snapshots.overlay import is_whiteout
from rlvr_envs.snapshots.tree import walk

_VIEWS: dict[Path, tuple[Snapshot, Layer]] = {}
"""Final roots on show: the snapshot below, and the writable layer on top."""
_VIEWS_LOCK = threading.Lock()


class SealedCopy:
    """A copied writable layer; keeps `rlvr_envs.sandbox.base.SealedLayer`."""

    def __init__(self, folder: Path, layer: Layer) -> None:
        self._folder = folder
        self._layer = layer

    @property
    def layer(self) -> Layer:
        """The layer, on top of the snapshot that its episode started from."""
        return self._layer

    def close(self) -> None:
        """Remove the copy; idempotent."""
        shutil.rmtree(self._folder, ignore_errors=True)


def sealed_copy(
    upper: Path, places: Places, *, shifted: bool, top: Layer | None
) -> SealedCopy:
    """Copy a writable layer that nobody writes to meanwhile.

    Args:
        upper: The daemon's folder.
        places: Where sealed layers are kept.
        shifted: Whether its files carry a user namespace's host ids.
        top: What was laid into it before the start.

    Raises:
        SandboxError: If it cannot be copied.
    """
    with boundary(SandboxError, "copying a writable layer"):
        folder = Path(tempfile.mkdtemp(prefix=f"{owner_name()}-", dir=sealed(places)))
        target = folder / "layer"
        target.mkdir()
        _copy(upper, target)
        if top is not None:
            mark_removed(target, top)
        name = digest_of(["sealed", folder.name])
        return SealedCopy(folder, Layer(name, target, shifted))


def show(snapshot: Snapshot, top: Layer, lowers: Sequence[Path], at: Path) -> None:
    """Mount writable layer and image as one read-only tree.

    The daemon's own files (``/etc/hosts``, ``/.dockerenv``) lie in a layer between
    the two, and the folders to mount upon in the image's last; both are left out.

    Raises:
        SandboxError: If the kernel refuses.
    """
    at.mkdir()
    own = [lower for lower in lowers if not lower.parent.name.endswith("-init")]
    mounting.overlay_read_only([top.path, *own[1:]], at)
    with _VIEWS_LOCK:
        _VIEWS[at] = (snapshot, top)


def checked_source(source: Path) -> Path:
    """Return a folder that is to be bound, if no link of an agent's leads to it.

    Raises:
        SandboxError: If a part of its path below a final root is no plain folder.
    """
    with _VIEWS_LOCK:
        roots = [root for root in _VIEWS if root in source.parents]
    for root in roots:
        path = root
        for part in source.relative_to(root).parts:
            path /= part
            if path.is_symlink() or not path.is_dir():
                raise SandboxError(f"{part!r} in the final root is no folder.")
    return source


def forget(at: Path) -> None:
    """Say that a final root is shown no more."""
    with _VIEWS_LOCK:
        _VIEWS.pop(at, None)


def parted(snapshot: Snapshot, places: Places) -> tuple[Snapshot, Layer | None]:
    """Part a snapshot into what becomes an image and what is laid in afterwards.

    Writable layers of earlier containers never become images: the daemon would keep
    one for each, and would write out the holes of sparse files. The last of them
    holds all that the others do.

    Returns:
        Layers for the image, and the writable layer to lay into the container's own.
    """
    below: list[Layer] = []
    top: Layer | None = None
    for layer in snapshot.layers:
        with _VIEWS_LOCK:
            seen = _VIEWS.get(layer.path)
        if seen is not None:
            inner, _earlier = parted(seen[0], places)
            below += inner.layers
            top = seen[1]
        elif top is not None or layer.path.parent.parent == sealed(places):
            top = layer
        else:
            below.append(layer)
    return Snapshot(tuple(below)), top


def lay_in(top: Layer, upper: Path) -> None:
    """Copy a writable layer into that of a container that was not started yet.

    Raises:
        SandboxError: If a file cannot be copied.
    """
    with boundary(SandboxError, "laying in a writable layer"):
        _copy(top.path, upper)


def mark_removed(upper: Path, top: Layer) -> None:
    """Leave whiteouts for what was laid in and is gone.

    The kernel leaves none, since the image below never had it; but to whoever
    stacks the two writable layers it must not come back.
    """
    gone = ""
    for entry in walk(top.path):
        if (gone and entry.path.startswith(gone)) or is_whiteout(entry.info):
            continue
        if not os.path.lexists(upper / entry.path):
            os.mknod(upper / entry.path, stat.S_IFCHR, 0)
        if entry.kind == "dir" and not _is_plain_folder(upper / entry.path):
            gone = f"{entry.path}/"


def _is_plain_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _copy(source: Path, target: Path) -> None:
    """Copy what is in a folder: owners, times, whiteouts, holes and all."""
    options = ["--archive", "--reflink=auto", "--sparse=always"]
    subprocess.run(
        ["/bin/cp", *options, f"{source}/.", str(target)],
        check=True,
        capture_output=True,
    )


def set_times(upper: Path, *, since_ns: int, moment_ns: int) -> None:
    """Give what was written since a moment of the host another time.

    Files may come and go meanwhile; no link is followed.
    """
    for _path, folders, files, descriptor in os.fwalk(upper, follow_symlinks=False):
        for name in (*folders, *files):
            with suppress(OSError):
                info = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if info.st_mtime_ns >= since_ns:
                    times = (moment_ns, moment_ns)
                    os.utime(name, ns=times, dir_fd=descriptor, follow_symlinks=False)
