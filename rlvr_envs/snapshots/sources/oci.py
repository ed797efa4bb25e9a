"""A root file system out of an OCI archive, each blob checked against its digest.

The older form that ``docker save`` writes before version 25 is read as well: its
layers are checked against the digests in the image's configuration.
"""

from __future__ import annotations

import hashlib
import json
import platform
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rlvr_envs.errors import CallerError, SnapshotError
from rlvr_envs.snapshots.finishing import packages
from rlvr_envs.snapshots.sources.base import LATEST_S, Progress, Provenance
from rlvr_envs.snapshots.tree import CHUNK_BYTES
from rlvr_envs.snapshots.unpack import WHITEOUT, Unpacker

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
INDEX_TYPES = ("image.index", "manifest.list")
SMALL_BYTES = 4 << 20

_Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Part:
    """A layer's place in the archive, and the digest of the bytes there."""

    path: str
    digest: str


class OciSource:
    """An archive with ``index.json`` and ``blobs/``, or a folder laid out like one."""

    def __init__(
        self,
        archive: Path,
        *,
        digest: str = "",
        latest_s: int = LATEST_S,
        machine: str | None = None,
    ) -> None:
        """Plan a build.

        Args:
            archive: Tar file or folder.
            digest: ``sha256:...`` of the manifest or index that it must hold; empty
                for whatever it names first.
            latest_s: As the contract says.
            machine: As `platform.machine` says; chooses among several platforms.
        """
        self._archive = archive
        self._digest = digest
        self._latest_s = latest_s
        self._machine = machine or platform.machine()

    @property
    def latest_s(self) -> int:
        """As it was asked for."""
        return self._latest_s

    def fill(self, root: Path, *, progress: Progress) -> Provenance:
        """Apply the layers in order, what they take away first.

        Raises:
            CallerError: If there is no such archive.
            SnapshotError: If a blob is missing or is not what its digest says, or
                the archive has another form or another platform.
        """
        with _opened(self._archive) as blobs:
            old = not blobs.has("index.json") and blobs.has("manifest.json")
            digest, layers = self._saved(blobs) if old else self._layout(blobs)
            unpacker = Unpacker(root)
            for number, layer in enumerate(layers, start=1):
                progress(f"Applying layer {number} of {len(layers)}.")
                _apply(blobs, layer, unpacker)
            unpacker.finish()
        return Provenance("oci", digest, "layers", packages=packages(root))

    def _saved(self, blobs: _Blobs) -> tuple[str, Sequence[_Part]]:
        """Read the form with a ``manifest.json``; its digest is the configuration's."""
        row = json.loads(blobs.small("manifest.json"))[0]
        config = blobs.small(row["Config"])
        digest = f"sha256:{hashlib.sha256(config).hexdigest()}"
        self._named([{"digest": digest}])
        digests = json.loads(config)["rootfs"]["diff_ids"]
        pairs = zip(row["Layers"], digests, strict=True)
        return digest, [_Part(path, number) for path, number in pairs]

    def _layout(self, blobs: _Blobs) -> tuple[str, Sequence[_Part]]:
        digest, manifest = self._manifest(blobs)
        for layer in manifest["layers"]:
            if layer.get("mediaType", "").endswith("zstd"):
                raise SnapshotError(
                    "A layer of the archive is compressed with zstd, which cannot be "
                    "read.",
                    remedy="export the image with gzip or uncompressed layers.",
                )
        digests = [layer["digest"] for layer in manifest["layers"]]
        return digest, [_Part(blobs.path(number), number) for number in digests]

    def _manifest(self, blobs: _Blobs) -> tuple[str, Mapping[str, Any]]:
        entries = json.loads(blobs.small("index.json"))["manifests"]
        entry = self._fitting(self._named(entries))
        while any(kind in entry.get("mediaType", "") for kind in INDEX_TYPES):
            inner = json.loads(blobs.checked(entry["digest"]))
            entry = self._fitting(inner["manifests"])
        manifest = json.loads(blobs.checked(entry["digest"]))
        if "layers" not in manifest:
            raise SnapshotError(f"{self._archive}: {entry['digest']} is no image.")
        return entry["digest"], manifest

    def _named(self, entries: Sequence[_Entry]) -> list[_Entry]:
        if not self._digest:
            return list(entries)
        found = [entry for entry in entries if entry["digest"] == self._digest]
        if not found:
            held = ", ".join(str(entry["digest"]) for entry in entries)
            raise SnapshotError(
                f"{self._archive} does not hold {self._digest}; it holds {held}.",
                remedy="export the image again, or name the digest that it has.",
            )
        return found

    def _fitting(self, entries: Sequence[_Entry]) -> _Entry:
        wanted = ARCHITECTURES.get(self._machine, self._machine)
        for entry in entries:
            if _fits(entry, wanted):
                return entry
        raise SnapshotError(
            f"{self._archive} holds no image for linux/{wanted}.",
            remedy="export the image for this machine's platform.",
        )


def _fits(entry: _Entry, architecture: str) -> bool:
    made_for = entry.get("platform")
    if made_for is None:
        return True
    return (made_for.get("os"), made_for.get("architecture")) == ("linux", architecture)


class _Blobs:
    """The named parts of an archive or of a folder."""

    def __init__(self, place: Path, archive: tarfile.TarFile | None) -> None:
        self._place = place
        self._archive = archive

    def has(self, name: str) -> bool:
        """Whether there is a part of that path."""
        if self._archive is None:
            return (self._place / name).is_file()
        return name in self._archive.getnames()

    def open(self, name: str) -> IO[bytes]:
        """Open a part by its path."""
        try:
            if self._archive is None:
                return (self._place / name).open("rb")
            part = self._archive.extractfile(name)
        except (KeyError, FileNotFoundError):
            part = None
        if part is None:
            raise SnapshotError(
                f"{self._place} has no {name}: it is no OCI archive, or damaged.",
                remedy="write it with `docker save`, `podman save --format "
                "oci-archive`, `buildah push ... oci-archive:FILE` or skopeo.",
            )
        return part

    def small(self, name: str) -> bytes:
        """Return a part that holds JSON, of at most 4 MiB."""
        with self.open(name) as part:
            return part.read(SMALL_BYTES)

    def path(self, digest: str) -> str:
        """Return where a blob lies."""
        algorithm, _, value = digest.partition(":")
        if algorithm != "sha256" or not value.isalnum():
            raise SnapshotError(f"{self._place} names the unknown digest {digest!r}.")
        return f"blobs/sha256/{value}"

    def check(self, path: str, digest: str) -> None:
        """Read a part and compare it with its digest."""
        total = hashlib.sha256()
        with self.open(path) as part:
            while chunk := part.read(CHUNK_BYTES):
                total.update(chunk)
        found = f"sha256:{total.hexdigest()}"
        if found != digest:
            raise SnapshotError(
                f"{self._place}: the blob {digest} has the digest {found}.",
                remedy="the archive is damaged; copy or export it again.",
            )

    def checked(self, digest: str) -> bytes:
        """Return a small blob that is what its digest says."""
        path = self.path(digest)
        self.check(path, digest)
        return self.small(path)


@contextmanager
def _opened(place: Path) -> Iterator[_Blobs]:
    if place.is_dir():
        yield _Blobs(place, None)
        return
    try:
        with tarfile.open(place) as archive:
            yield _Blobs(place, archive)
    except FileNotFoundError as error:
        raise CallerError(
            f"There is no archive {place}.",
            remedy="name a file or a folder in the OCI image layout",
        ) from error
    except (tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise SnapshotError(
            f"{place} is no OCI archive, or damaged: {error}.",
            remedy="export the image again.",
        ) from error


def _apply(blobs: _Blobs, layer: _Part, unpacker: Unpacker) -> None:
    blobs.check(layer.path, layer.digest)
    # A mark may stand behind the names that its own layer adds beside it.
    for member, _ in _members(blobs, layer):
        unpacker.hide(member)
    for member, archive in _members(blobs, layer):
        if not member.name.rpartition("/")[2].startswith(WHITEOUT):
            unpacker.take(archive, member)


def _members(
    blobs: _Blobs, layer: _Part
) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
    with (
        blobs.open(layer.path) as part,
        tarfile.open(fileobj=part, mode="r|*") as archive,
    ):
        for member in archive:
            yield member, archive
