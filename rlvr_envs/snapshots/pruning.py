"""What nothing needs any more, removed from a store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlvr_envs.records import Places
from rlvr_envs.snapshots.holding import unused
from rlvr_envs.snapshots.locking import sweep
from rlvr_envs.snapshots.store import ImageStore
from rlvr_envs.snapshots.tree import size_of


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed: trees by kind, and the bytes of their files."""

    images: int
    layers: int
    unfinished: int
    content_bytes: int


def prune(places: Places) -> Pruned:
    """Remove images without a name, cached layers, and what killed builds left.

    Layers are built again when an episode needs them.

    Raises:
        CallerError: If a living process uses the store.
    """
    store = ImageStore(places)
    with unused(places.store):
        named = {store.root(store.image(name)) for name in store.names()}
        images = [path for path in _trees(places.store / "images") if path not in named]
        layers = list(_trees(places.store / "layers"))
        content = sum(_remove(path) for path in [*images, *layers])
        return Pruned(len(images), len(layers), sweep(places.store), content)


def _trees(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir():
            yield path


def _remove(tree: Path) -> int:
    size = size_of(tree).content_bytes
    for mark in (".stamp", ".json"):
        tree.with_suffix(mark).unlink(missing_ok=True)
    shutil.rmtree(tree)
    return size
