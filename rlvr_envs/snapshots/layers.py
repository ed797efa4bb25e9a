"""Layers of the store: built once by whoever first needs them, sealed from uppers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from rlvr_envs.errors import SnapshotError
from rlvr_envs.records import Layer, Places
from rlvr_envs.snapshots.holding import hold
from rlvr_envs.snapshots.locking import locked, partial, publish, write_atomically
from rlvr_envs.snapshots.tree import stamp, tree_digest

_CHECKED: set[Path] = set()
"""Layers that this process has already compared with their stamps."""


class LayerStore:
    """Cached layers under one store folder, addressed by what they are made from.

    Layout: ``layers/HEX/`` (the tree) and ``layers/HEX.json`` (its content digest
    and stamp). They can all be made again: `rlvr images prune` removes them.
    """

    def __init__(self, places: Places | None = None) -> None:
        self.store = (places or Places()).store

    def layer(self, digest: str, build: Callable[[Path], None]) -> Layer:
        """Return a layer, built if it is missing.

        Args:
            digest: ``sha256:...`` over everything that the build depends on.
            build: Fills an empty folder; owners are the plain ids 0 to 65535.

        Raises:
            SnapshotError: If the stored tree changed, or the disk is full.
        """
        name = digest.removeprefix("sha256:")
        root = self.store / "layers" / name
        hold(self.store)
        if root not in _CHECKED:
            with locked(self.store, f"layer-{name[:32]}"):
                if root.is_dir():
                    _check(root)
                else:
                    self._build(root, build)
                _CHECKED.add(root)
        return Layer(digest=digest, path=root)

    def has(self, digest: str) -> bool:
        """Whether a layer is stored."""
        return (self.store / "layers" / digest.removeprefix("sha256:")).is_dir()

    def _build(self, root: Path, build: Callable[[Path], None]) -> None:
        with partial(self.store) as work:
            made = work / "root"
            made.mkdir(mode=0o755)
            build(made)
            publish(made, root)
        _write_marks(root, tree_digest(root))


def _marks_file(root: Path) -> Path:
    return root.with_suffix(".json")


def _write_marks(root: Path, content: str) -> None:
    marks = {"content": content, "stamp": stamp(root)}
    write_atomically(_marks_file(root), json.dumps(marks) + "\n")


def _check(root: Path) -> None:
    try:
        marks = json.loads(_marks_file(root).read_text())
    except FileNotFoundError:  # killed between the two: the tree itself is whole
        _write_marks(root, tree_digest(root))
        return
    if marks["stamp"] == stamp(root):
        return
    found = tree_digest(root)
    if found != marks["content"]:
        raise SnapshotError(
            f"The stored layer {root} changed: its digest is {found}, it was built as "
            f"{marks['content']}.",
            remedy="`rlvr images prune` removes it; it is built again when needed.",
        )
    _write_marks(root, found)
