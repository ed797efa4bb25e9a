"""Tiny root file systems and archives, written by hand."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.records import Places
from rlvr_envs.snapshots.sources.folder import FolderSource
from rlvr_envs.snapshots.store import ImageStore, StoredImage

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="files of many owners need root"
)


def mini_root(folder: Path) -> Path:
    """A folder that passes for a root file system."""
    for name in ("usr/bin", "etc", "var/log", "home", "root"):
        (folder / name).mkdir(parents=True)
    (folder / "bin").symlink_to("usr/bin")
    (folder / "usr/bin/sh").write_text("#!")
    (folder / "usr/bin/sh").chmod(0o755)
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (folder / "etc/group").write_text("root:x:0:\n")
    (folder / "var/log/build.log").write_text("built just now")
    return folder


def mini_image(places: Places, work: Path, *, name: str = "mini") -> StoredImage:
    """Store a tiny image."""
    folder = mini_root(work / f"folder-{name}")
    return ImageStore(places).build(name, FolderSource(folder))


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a hand-made archive; its type follows from what is set."""

    name: str
    data: bytes = b""
    link: str = ""
    hard: str = ""
    folder: bool = False
    mode: int = 0o644
    owner: int = 0
    mtime_s: int = 1_600_000_000
    attributes: Mapping[str, str] | None = None

    def header(self) -> tarfile.TarInfo:
        info = tarfile.TarInfo(self.name)
        info.mode, info.uid, info.gid, info.mtime = (
            self.mode,
            self.owner,
            self.owner,
            self.mtime_s,
        )
        info.type, info.linkname = self._type()
        info.size = len(self.data)
        info.pax_headers = dict(self.attributes or {})
        return info

    def _type(self) -> tuple[bytes, str]:
        if self.link:
            return tarfile.SYMTYPE, self.link
        if self.hard:
            return tarfile.LNKTYPE, self.hard
        return (tarfile.DIRTYPE if self.folder else tarfile.REGTYPE), ""


def tar_of(members: Sequence[Member], *, compression: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as archive:  # type: ignore[call-overload]  # the mode is made up
        for member in members:
            archive.addfile(member.header(), io.BytesIO(member.data))
    return buffer.getvalue()


BASE_LAYER = (
    Member("usr/bin", folder=True, mode=0o755),
    Member("usr/bin/sh", b"#!", mode=0o755),
    Member("bin", link="usr/bin"),
    Member("etc/old", b"old"),
    Member("etc/conf.d", folder=True, mode=0o755),
    Member("etc/conf.d/one", b"1"),
    Member("etc/conf.d/two", b"2"),
)


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def oci_parts(
    layers: Sequence[bytes], *, platform: Mapping[str, str] | None = None
) -> tuple[dict[str, bytes], str]:
    """The files of an OCI layout, and its manifest's digest."""
    parts: dict[str, bytes] = {}

    def blob(data: bytes, media_type: str, **more: Any) -> dict[str, Any]:
        parts[f"blobs/sha256/{digest(data)[7:]}"] = data
        return {
            "mediaType": media_type,
            "digest": digest(data),
            "size": len(data),
            **more,
        }

    prefix = "application/vnd.oci.image"
    config = blob(json.dumps({"os": "linux"}).encode(), f"{prefix}.config.v1+json")
    rows = [blob(layer, f"{prefix}.layer.v1.tar+gzip") for layer in layers]
    manifest = json.dumps(
        {"schemaVersion": 2, "config": config, "layers": rows}
    ).encode()
    more = {"platform": dict(platform)} if platform else {}
    entry = blob(manifest, f"{prefix}.manifest.v1+json", **more)
    index = {"schemaVersion": 2, "manifests": [entry]}
    parts["index.json"] = json.dumps(index).encode()
    parts["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    return parts, entry["digest"]


def write_archive(file: Path, parts: Mapping[str, bytes]) -> Path:
    file.write_bytes(tar_of([Member(name, data) for name, data in parts.items()]))
    return file
