"""The images that the package ships recipes for: built when they are missing."""

from __future__ import annotations

from pathlib import Path

from rlvr_envs.records import Places
from rlvr_envs.snapshots.locking import locked
from rlvr_envs.snapshots.recipes import drift, read_lock, recipe
from rlvr_envs.snapshots.sources.base import Progress, silent
from rlvr_envs.snapshots.sources.debian import DebianSource
from rlvr_envs.snapshots.store import ImageStore, StoredImage


def ensure_image(
    name: str,
    places: Places,
    *,
    progress: Progress | None = None,
) -> StoredImage:
    """Return a stored image, built from its recipe if it is missing.

    A build takes about a minute and downloads about 150 MB; with nothing to do it
    takes milliseconds. Two processes at once build it once.

    Raises:
        CallerError: If it is missing and there is no recipe of that name.
        MissingRequirement: If the machine lacks what the build needs.
        SnapshotError: If the build fails.
    """
    store = ImageStore(places)
    if store.has(name):
        return store.image(name)
    with locked(places.store, f"ensure-{name}"):
        if store.has(name):  # built by whoever held the lock
            return store.image(name)
        return build_image(name, places, progress=progress or silent)


def build_image(
    name: str,
    places: Places,
    *,
    sources: Path | None = None,
    progress: Progress = silent,
) -> StoredImage:
    """Build an image from its recipe, in the place of an earlier one.

    Where the archive no longer has a locked version, the newer one is taken;
    `check_drift` tells the differences.

    Args:
        name: Of a recipe.
        places: Where the store is.
        sources: An apt sources file to use in place of the host's own, such as one
            that names a dated archive, for the locked versions exactly.
        progress: Is told what is being done.
    """
    source = DebianSource(recipe(name), read_lock(name), sources=sources)
    return ImageStore(places).build(name, source, progress=progress)


def check_drift(image: StoredImage) -> tuple[str, ...]:
    """Return how an image's package versions differ from the lock, a line each.

    Returns:
        Empty for an image that no recipe made, or that has no lock.
    """
    lock = read_lock(image.name)
    if image.provenance.source != "debian" or not lock.packages:
        return ()
    return drift(lock, image.provenance.packages)
