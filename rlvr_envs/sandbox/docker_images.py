"""A snapshot as a Docker image: each layer is loaded once, by what it holds."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rlvr_envs.errors import SnapshotError, boundary
from rlvr_envs.records import Layer, Places, Snapshot, digest_of
from rlvr_envs.sandbox.base import AGENT_IDS
from rlvr_envs.snapshots.overlay import is_opaque, is_whiteout
from rlvr_envs.snapshots.tree import CHUNK_BYTES, Entry, opened, walk

REPOSITORY = "rlvr-envs"
LABEL = "rlvr-envs"
"""On every image and container of ours."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_TYPES = {
    "dir": tarfile.DIRTYPE,
    "file": tarfile.REGTYPE,
    "link": tarfile.SYMTYPE,
    "fifo": tarfile.FIFOTYPE,
}
_CAPABILITY = "security.capability"


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """A layer as a tar archive; the daemon knows it by the archive's digest."""

    diff_id: str
    file: Path


def image_for(
    client: Any, snapshot: Snapshot, places: Places, points: Sequence[str]
) -> str:
    """Return the tag of a snapshot's image, loading what the daemon lacks.

    Args:
        client: A `docker.DockerClient`.
        snapshot: What the image shall hold.
        places: Where the digests of loaded layers are noted.
        points: Absolute folders that the last layer holds, to be mounted upon: what
            a runtime has to make itself would look like the agent's work.

    Raises:
        SnapshotError: If a layer cannot be read or the daemon refuses it.
    """
    digest = digest_of([snapshot.digest, *points]).removeprefix("sha256:")
    tag = f"{REPOSITORY}:{digest[:40]}"
    if client.images.list(tag):
        return tag
    with (
        boundary(SnapshotError, "loading a snapshot into the Docker daemon"),
        tempfile.TemporaryDirectory(dir=_folder(places)) as name,
    ):
        folder = Path(name)
        last = _points_layer(snapshot.layers, points, folder / "points")
        _load(client, tag, (*snapshot.layers, last), places, folder)
    return tag


def _points_layer(layers: Sequence[Layer], points: Sequence[str], at: Path) -> Layer:
    """Make a layer of empty folders, whose parents look as they do below."""
    at.mkdir()
    for point in points:
        (at / point.strip("/")).mkdir(mode=0o755, parents=True, exist_ok=True)
    made = sorted(at.rglob("*"), reverse=True)
    for path in made:
        _dress_like(layers, path.relative_to(at), path)
    names = [f"{path.relative_to(at)}" for path in made]
    below = digest_of([layer.digest for layer in layers])
    return Layer(digest_of(["mount points", below, *sorted(names)]), at)


def _dress_like(layers: Sequence[Layer], part: Path, made: Path) -> None:
    for layer in reversed(layers):
        try:
            info = (layer.path / part).lstat()
        except OSError:
            continue
        if stat.S_ISDIR(info.st_mode):
            shift = AGENT_IDS if layer.shifted else 0
            os.chown(made, info.st_uid - shift, info.st_gid - shift)
            made.chmod(stat.S_IMODE(info.st_mode))
            os.utime(made, ns=(info.st_mtime_ns, info.st_mtime_ns))
            return
    os.utime(made, (0, 0))


def _load(
    client: Any, tag: str, layers: Sequence[Layer], places: Places, folder: Path
) -> None:
    known = _known(places, layers)
    chains = [image.attrs["RootFS"].get("Layers") or [] for image in _images(client)]
    have = max((_common(known, chain) for chain in chains), default=0)
    packed = [
        PackedLayer(str(known[place]), folder / "absent")
        if place < have
        else pack(layer, folder / f"{place}.tar")
        for place, layer in enumerate(layers)
    ]
    _remember(places, layers, packed)
    archive = folder / "image.tar"
    with archive.open("w+b") as file:
        _archive(file, tag, packed)
        file.seek(0)
        client.images.load(file)


def _images(client: Any) -> list[Any]:
    return list(client.images.list(filters={"label": LABEL}))


def _common(known: Sequence[str | None], chain: Sequence[str]) -> int:
    """Return how many layers from the bottom an image has in common with ours."""
    count = 0
    for ours, theirs in zip(known, chain, strict=False):
        if ours != theirs:
            break
        count += 1
    return count


def _folder(places: Places) -> Path:
    folder = places.store / "docker"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _notes(places: Places, layer: Layer) -> Path:
    return _folder(places) / f"{digest_of([layer.digest]).removeprefix('sha256:')}.json"


def _known(places: Places, layers: Sequence[Layer]) -> list[str | None]:
    found: list[str | None] = []
    for layer in layers:
        file = _notes(places, layer)
        found.append(json.loads(file.read_text())["diff_id"] if file.exists() else None)
    return found


def _remember(
    places: Places, layers: Sequence[Layer], packed: Sequence[PackedLayer]
) -> None:
    for layer, item in zip(layers, packed, strict=True):
        file = _notes(places, layer)
        aside = file.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps({"layer": layer.digest, "diff_id": item.diff_id}))
        aside.rename(file)


def pack(layer: Layer, target: Path) -> PackedLayer:
    """Write a layer as a tar archive with the whiteouts that image layers use.

    The same layer gives the same bytes.
    """
    shift = AGENT_IDS if layer.shifted else 0
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        links: dict[int, str] = {}
        for entry in walk(layer.path):
            _add(archive, entry, links, shift)
    digest = hashlib.sha256()
    with target.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return PackedLayer(f"sha256:{digest.hexdigest()}", target)


def _add(
    archive: tarfile.TarFile, entry: Entry, links: dict[int, str], shift: int
) -> None:
    if is_whiteout(entry.info):
        folder, _, name = entry.path.rpartition("/")
        _empty(archive, "/".join(filter(None, (folder, _WHITEOUT + name))))
        return
    if entry.kind not in _TYPES:
        return
    info = _header(entry, shift)
    if entry.kind == "dir":
        archive.addfile(info)
        with opened(entry) as descriptor:
            if is_opaque(descriptor):
                _empty(archive, f"{entry.path}/{_OPAQUE}")
    elif entry.kind == "link":
        info.linkname = os.readlink(entry.name, dir_fd=entry.folder)
        archive.addfile(info)
    elif entry.kind == "file":
        _add_file(archive, entry, info, links)
    else:
        archive.addfile(info)


def _add_file(
    archive: tarfile.TarFile,
    entry: Entry,
    info: tarfile.TarInfo,
    links: dict[int, str],
) -> None:
    first = links.setdefault(entry.info.st_ino, entry.path)
    if entry.info.st_nlink > 1 and first != entry.path:
        info.type, info.linkname = tarfile.LNKTYPE, first
        archive.addfile(info)
        return
    with opened(entry) as descriptor, os.fdopen(os.dup(descriptor), "rb") as source:
        info.size = entry.info.st_size
        if _CAPABILITY in os.listxattr(descriptor):
            value = os.getxattr(descriptor, _CAPABILITY)
            text = value.decode("utf-8", "surrogateescape")
            info.pax_headers = {f"SCHILY.xattr.{_CAPABILITY}": text}
        archive.addfile(info, source)


def _header(entry: Entry, shift: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(entry.path)
    info.type = _TYPES[entry.kind]
    info.mode = entry.info.st_mode & 0o7777
    info.uid, info.gid = entry.info.st_uid - shift, entry.info.st_gid - shift
    info.mtime = int(entry.info.st_mtime)
    return info


def _empty(archive: tarfile.TarFile, name: str) -> None:
    archive.addfile(tarfile.TarInfo(name))


def _archive(file: IO[bytes], tag: str, packed: Sequence[PackedLayer]) -> None:
    """Write what `docker load` takes."""
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Labels": {LABEL: "snapshot"}},
        "rootfs": {"type": "layers", "diff_ids": [item.diff_id for item in packed]},
    }
    text = json.dumps(config, sort_keys=True).encode()
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    layers = [f"{place}/layer.tar" for place in range(len(packed))]
    manifest = [{"Config": name, "RepoTags": [tag], "Layers": layers}]
    with tarfile.open(fileobj=file, mode="w") as archive:
        for path, data in (
            (name, text),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            header = tarfile.TarInfo(path)
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
        for path, item in _present(layers, packed):
            archive.add(item.file, path)


def _present(
    layers: Sequence[str], packed: Sequence[PackedLayer]
) -> Iterator[tuple[str, PackedLayer]]:
    for path, item in zip(layers, packed, strict=True):
        if item.file.exists():
            yield path, item
