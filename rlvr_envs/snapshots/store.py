"""Images by name and content digest, built once and kept read-only."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlvr_envs.errors import CallerError, MissingRequirement, SnapshotError
from rlvr_envs.records import Layer, Places
from rlvr_envs.snapshots.finishing import check_root, clean, identify, retime_python
from rlvr_envs.snapshots.holding import hold
from rlvr_envs.snapshots.locking import (
    OWN_STORE,
    locked,
    partial,
    publish,
    write_atomically,
)
from rlvr_envs.snapshots.repositories import check_tree
from rlvr_envs.snapshots.sources.base import Progress, Provenance, Source, silent
from rlvr_envs.snapshots.tree import clamp_times, size_of, stamp, tree_digest

SCHEMA = 1
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
REBUILD = "rebuild it with `rlvr images build --force {name}`, or import it again."


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image of the store.

    Attributes:
        digest: ``sha256:...`` over the whole tree.
        entries: Files, folders and links in it.
        content_bytes: Bytes of its regular files.
    """

    name: str
    digest: str
    entries: int
    content_bytes: int
    provenance: Provenance
    schema: int = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> StoredImage:
        """Read what `to_json` wrote.

        Raises:
            SnapshotError: If it was written by another release.
        """
        if data.get("schema") != SCHEMA:
            raise SnapshotError(
                f"The image's metadata has schema {data.get('schema')!r}, not {SCHEMA}.",
                remedy="build or import the image again with this release.",
            )
        provenance = Provenance(**data["provenance"])
        return StoredImage(**{**data, "provenance": provenance})


@dataclass(slots=True)
class _Checked:
    """Trees that this process has already compared with their stamps."""

    trees: set[tuple[Path, str]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


_CHECKED = _Checked()


@lru_cache(maxsize=16)
def _parsed(text: str) -> StoredImage:
    """Read a metadata file's text; every reset asks for it."""
    return StoredImage.from_json(json.loads(text))


class ImageStore:
    """The images under one store folder.

    Layout: ``names/NAME.json`` (metadata), ``images/HEX/`` (the tree) and
    ``images/HEX.stamp``. All of it belongs to root, and a sandbox sees a tree only
    as a read-only layer.

    An image is compared with its *stamp* (inode numbers, sizes, change times) the
    first time that a process uses it, and with its *digest* (every byte) where the
    stamp differs and on `verify`. Later episodes of the same process trust it.
    """

    def __init__(self, places: Places | None = None) -> None:
        self.folder = (places or Places()).store

    def names(self) -> tuple[str, ...]:
        """Return the names of all stored images, sorted.

        Raises:
            MissingRequirement: If this user may not read the store.
        """
        with self._reading():
            names = self.folder / "names"
            found = list(names.iterdir()) if names.is_dir() else []
        return tuple(sorted(path.stem for path in found if path.suffix == ".json"))

    def has(self, name: str) -> bool:
        """Whether an image of that name is stored.

        Raises:
            MissingRequirement: If this user may not read the store.
        """
        with self._reading():
            return self._metadata(name).is_file()

    def image(self, name: str) -> StoredImage:
        """Return what is known of a stored image.

        Raises:
            MissingRequirement: If this user may not read the store.
            SnapshotError: If it is not stored, or its metadata is damaged.
        """
        path = self._metadata(name)
        try:
            with self._reading():
                return _parsed(path.read_text())
        except FileNotFoundError:
            raise SnapshotError(
                f"The image {name!r} is not in the store {self.folder}.",
                remedy=f"`rlvr images build {name}`, or `rlvr images import FILE`.",
            ) from None
        except (ValueError, TypeError, KeyError) as error:
            raise SnapshotError(
                f"The metadata of the image {name!r} is damaged: {error}.",
                remedy=REBUILD.format(name=name),
            ) from error

    def root(self, image: StoredImage) -> Path:
        """Return the host folder that holds an image's tree."""
        return self.folder / "images" / _hex(image.digest)

    def layer(self, name: str) -> Layer:
        """Return an image as the layer that sandboxes start from.

        Raises:
            SnapshotError: If it is not stored, or changed since it was built.
        """
        hold(self.folder)
        image = self.image(name)
        root = self.root(image)
        with _CHECKED.lock:
            if (root, image.digest) not in _CHECKED.trees:
                self._check_stamp(image)
                _CHECKED.trees.add((root, image.digest))
        return Layer(digest=image.digest, path=root)

    def verify(self, name: str) -> StoredImage:
        """Read every byte of an image and compare it with its digest.

        Raises:
            SnapshotError: If it is not stored, or differs; names both digests.
        """
        image = self.image(name)
        root = self.root(image)
        if not root.is_dir():
            raise SnapshotError(
                f"The tree of the image {name!r} is gone from {root}.",
                remedy=REBUILD.format(name=name),
            )
        found = tree_digest(root)
        if found != image.digest:
            raise SnapshotError(
                f"The stored image {name!r} changed: its digest is {found}, it was "
                f"built as {image.digest}.",
                remedy=REBUILD.format(name=name),
            )
        return image

    def build(
        self, name: str, source: Source, *, progress: Progress = silent
    ) -> StoredImage:
        """Make an image and put it in the place of an earlier one of that name.

        Nothing is visible before it is whole. A second process that builds the same
        name waits for the first.

        Raises:
            CallerError: If the name is not plain.
            MissingRequirement: If the machine lacks what the source needs.
            SnapshotError: If the source fails, a repository in it is not locked, or
                the disk is full.
        """
        self._metadata(name)
        with locked(self.folder, f"image-{name}"), partial(self.folder) as work:
            root = work / "root"
            root.mkdir(mode=0o755)
            provenance = source.fill(root, progress=progress)
            progress("Cleaning and locking the tree.")
            check_root(root)
            clean(root)
            identify(root)
            check_tree(root)
            clamp_times(root, source.latest_s)
            retime_python(root)
            return self._take(name, root, provenance, progress=progress)

    def adopt(
        self, image: StoredImage, root: Path, *, progress: Progress = silent
    ) -> StoredImage:
        """Move a finished tree into the store under an image's name.

        Args:
            image: What the tree claims to be.
            root: A folder on the store's file system (see `locking.partial`).
            progress: Is told what is being done.

        Raises:
            SnapshotError: If the tree's digest is not the claimed one.
        """
        found = tree_digest(root)
        if found != image.digest:
            raise SnapshotError(
                f"The tree of the image {image.name!r} has the digest {found}, "
                f"expected was {image.digest}.",
                remedy="export it again on the machine that built it.",
            )
        with locked(self.folder, f"image-{image.name}"):
            return self._take(image.name, root, image.provenance, progress=progress)

    def _take(
        self, name: str, root: Path, provenance: Provenance, *, progress: Progress
    ) -> StoredImage:
        progress("Computing the content digest.")
        root.chmod(0o755)
        size = size_of(root)
        image = StoredImage(
            name=name,
            digest=tree_digest(root),
            entries=size.entries,
            content_bytes=size.content_bytes,
            provenance=provenance,
        )
        target = self.root(image)
        if target.is_dir() and tree_digest(target) != image.digest:
            # A damaged tree is worth nothing to a sandbox that still uses it.
            target.rename(root.with_name("damaged"))
        publish(root, target)
        self._write_stamp(image)
        text = json.dumps(image.to_json(), indent=2, sort_keys=True)
        write_atomically(self._metadata(name), text + "\n")
        return image

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise MissingRequirement(
                f"The image store {self.folder} cannot be read: {error.strerror}.",
                remedy=OWN_STORE,
            ) from error

    def _metadata(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise CallerError(
                f"{name!r} is no image name.",
                remedy="use lower-case letters, digits, dots, dashes; at most 64.",
            )
        return self.folder / "names" / f"{name}.json"

    def _stamp_file(self, image: StoredImage) -> Path:
        return self.root(image).with_suffix(".stamp")

    def _write_stamp(self, image: StoredImage) -> None:
        write_atomically(self._stamp_file(image), stamp(self.root(image)))

    def _check_stamp(self, image: StoredImage) -> None:
        root = self.root(image)
        try:
            same = root.is_dir() and self._stamp_file(image).read_text() == stamp(root)
        except FileNotFoundError:
            same = False
        if not same:
            # A store that was copied or moved has other inodes and the same bytes.
            self.verify(image.name)
            self._write_stamp(image)


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
