"""How an overlay marks what is gone, and the floors of a snapshot read as one tree."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from rlvr_envs.records import Layer
from rlvr_envs.snapshots.tree import FOLDER_FLAGS, names_in

OPAQUE = "trusted.overlay.opaque"
OWN_PREFIX = "trusted.overlay."
AGENT_ID_BASE = 100_000
UP_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def is_whiteout(info: os.stat_result) -> bool:
    """Whether an entry says that the name below it is gone."""
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def is_opaque(folder: int | Path) -> bool:
    """Whether a folder, open or by its path, hides all that lies below it."""
    try:
        return os.getxattr(folder, OPAQUE) in (b"y", b"x")
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Below:
    """What a name stands for in the layers.

    Attributes:
        folder: Descriptor of the folder that holds it.
        shift: What its owner's ids lie above the plain ones.
    """

    info: os.stat_result
    folder: int
    shift: int


@dataclass(slots=True)
class _Floor:
    """One layer at the folder where the reader stands.

    Attributes:
        lost_at: Depth below which the layer has nothing to say; 0 for none.
    """

    descriptor: int
    shift: int
    lost_at: int = 0


@dataclass(slots=True)
class MergedBelow:
    """A reader of several layers as one tree; it stands in one folder at a time.

    One descriptor a layer is open, whatever the depth, and no link is followed.
    Layers come bottom first.
    """

    floors: list[_Floor] = field(default_factory=list)
    depth: int = 0

    @classmethod
    def over(cls, layers: Sequence[Layer], *, id_base: int) -> Self:
        """Open the roots of layers, bottom first."""
        reader = cls()
        for layer in reversed(layers):
            descriptor = os.open(layer.path, UP_FLAGS)
            shift = id_base if layer.shifted else 0
            reader.floors.append(_Floor(descriptor, shift))
        return reader

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for floor in self.floors:
            os.close(floor.descriptor)
        self.floors.clear()

    @property
    def empty(self) -> bool:
        """Whether no layer has the folder where the reader stands."""
        return all(floor.lost_at for floor in self.floors)

    def find(self, name: str) -> Below | None:
        """Return what a name stands for here; None if nothing is there."""
        for floor in self.floors:
            if floor.lost_at:
                continue
            try:
                info = os.stat(name, dir_fd=floor.descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if is_whiteout(info):
                return None
            return Below(info, floor.descriptor, floor.shift)
        return None

    def listed(self) -> set[str]:
        """Return every name here in any layer, gone ones among them."""
        return {
            name
            for floor in self.floors
            if not floor.lost_at
            for name in names_in(floor.descriptor)
        }

    def names(self) -> Iterator[tuple[str, Below]]:
        """Yield what is here, each name once, in no order."""
        seen: set[str] = set()
        for floor in self.floors:
            if floor.lost_at:
                continue
            for name in names_in(floor.descriptor):
                if name in seen:
                    continue
                seen.add(name)
                info = os.stat(name, dir_fd=floor.descriptor, follow_symlinks=False)
                if not is_whiteout(info):
                    yield name, Below(info, floor.descriptor, floor.shift)

    def enter(self, name: str | None) -> None:
        """Step into a folder; with None, into one that no layer has."""
        self.depth += 1
        covered = name is None
        for floor in self.floors:
            if floor.lost_at:
                continue
            if covered or name is None:
                floor.lost_at = self.depth
                continue
            covered = self._enter_floor(floor, name)

    def _enter_floor(self, floor: _Floor, name: str) -> bool:
        """Step into one layer's folder; tell whether it hides those below."""
        try:
            descriptor = os.open(name, FOLDER_FLAGS, dir_fd=floor.descriptor)
        except FileNotFoundError:
            floor.lost_at = self.depth
            return False
        except OSError:  # a file, a link or a whiteout of that name
            floor.lost_at = self.depth
            return True
        os.close(floor.descriptor)
        floor.descriptor = descriptor
        return floor is not self.floors[-1] and is_opaque(descriptor)

    def leave(self) -> None:
        """Step back to the parent folder."""
        for floor in self.floors:
            if not floor.lost_at:
                parent = os.open("..", UP_FLAGS, dir_fd=floor.descriptor)
                os.close(floor.descriptor)
                floor.descriptor = parent
            elif floor.lost_at == self.depth:
                floor.lost_at = 0
        self.depth -= 1
