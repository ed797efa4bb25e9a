from __future__ import annotations

import gc
import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.errors import CallerError, MissingRequirement, SnapshotError
from rlvr_envs.snapshots.sources import source_from
from rlvr_envs.snapshots.sources.base import Provenance, silent
from rlvr_envs.snapshots.sources.docker import DockerSource, connect_from_environment
from rlvr_envs.snapshots.sources.folder import FolderSource
from rlvr_envs.snapshots.sources.oci import OciSource
from tests.snapshots.trees import (
    BASE_LAYER,
    Member,
    digest,
    mini_root,
    needs_root,
    oci_parts,
    tar_of,
    write_archive,
)

pytestmark = needs_root

CHANGING_LAYER = (
    Member("etc/.wh.old"),
    Member("etc/conf.d/three", b"3"),
    Member("etc/conf.d/.wh..wh..opq"),
    Member("bin/tool", b"tool", mode=0o4755, owner=7),
    Member("bin/tool-again", hard="bin/tool"),
    Member("way-out", link="/etc"),
    Member("way-out/made", b"inside"),
)


def fill(source: Any, root: Path) -> Provenance:
    root.mkdir(exist_ok=True)
    result = source.fill(root, progress=silent)
    assert isinstance(result, Provenance)
    return result


def archive(work: Path, *layers: bytes, **more: Any) -> tuple[Path, str]:
    parts, manifest = oci_parts(layers, **more)
    return write_archive(work / "image.tar", parts), manifest


def test_oci_layers_are_applied_with_what_they_take_away(tmp_path: Path) -> None:
    file, manifest = archive(
        tmp_path, tar_of(BASE_LAYER), tar_of(CHANGING_LAYER, compression="gz")
    )
    root = tmp_path / "root"

    made = fill(OciSource(file, digest=manifest), root)

    assert (made.source, made.reference) == ("oci", manifest)
    assert not (root / "etc/old").exists()
    assert sorted(path.name for path in (root / "etc/conf.d").iterdir()) == ["three"]
    assert (root / "bin").is_symlink()
    info = (root / "usr/bin/tool").stat()
    assert (info.st_mode & 0o7777, info.st_uid, info.st_nlink) == (0o4755, 7, 2)
    assert (root / "etc/made").read_text() == "inside"
    assert int((root / "usr/bin").stat().st_mtime) == 1_600_000_000
    assert not any(path.name.startswith(".wh.") for path in root.rglob("*"))


def test_an_oci_folder_works_like_an_archive(tmp_path: Path) -> None:
    parts, manifest = oci_parts([tar_of(BASE_LAYER)])
    for name, data in parts.items():
        path = tmp_path / "layout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    made = fill(OciSource(tmp_path / "layout"), tmp_path / "root")

    assert made.reference == manifest


def test_a_blob_that_is_not_what_its_digest_says_is_refused(tmp_path: Path) -> None:
    layer = tar_of(BASE_LAYER)
    parts, _ = oci_parts([layer])
    parts[f"blobs/sha256/{digest(layer)[7:]}"] = tar_of(CHANGING_LAYER)
    file = write_archive(tmp_path / "image.tar", parts)

    with pytest.raises(SnapshotError, match="has the digest"):
        fill(OciSource(file), tmp_path / "root")
    assert list((tmp_path / "root").iterdir()) == []


def test_another_digest_than_asked_for_is_refused(tmp_path: Path) -> None:
    file, manifest = archive(tmp_path, tar_of(BASE_LAYER))

    with pytest.raises(SnapshotError, match="does not hold") as caught:
        fill(OciSource(file, digest="sha256:" + "0" * 64), tmp_path / "root")
    assert manifest in str(caught.value)


def test_the_machines_platform_is_chosen_from_a_nested_index(tmp_path: Path) -> None:
    mine, _ = oci_parts(
        [tar_of(BASE_LAYER)], platform={"os": "linux", "architecture": "arm64"}
    )
    other, _ = oci_parts(
        [tar_of(CHANGING_LAYER)], platform={"os": "linux", "architecture": "amd64"}
    )
    entries = [
        json.loads(parts.pop("index.json"))["manifests"][0] for parts in (other, mine)
    ]
    inner = json.dumps({"manifests": entries}).encode()
    outer = {
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "digest": digest(inner),
    }
    parts = {**mine, **other, f"blobs/sha256/{digest(inner)[7:]}": inner}
    parts["index.json"] = json.dumps({"manifests": [outer]}).encode()
    file = write_archive(tmp_path / "image.tar", parts)

    fill(OciSource(file, machine="aarch64"), tmp_path / "root")

    assert (tmp_path / "root/etc/old").exists()
    with pytest.raises(SnapshotError, match="no image for linux/riscv64"):
        fill(OciSource(file, machine="riscv64"), tmp_path / "other")


def saved(work: Path, *layers: bytes, lie: bool = False) -> tuple[Path, str]:
    """An archive in the older form of ``docker save``."""
    digests = [digest(layer + b"!" if lie else layer) for layer in layers]
    config = json.dumps({"rootfs": {"diff_ids": digests}}).encode()
    paths = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "Layers": paths}]
    parts = {"manifest.json": json.dumps(manifest).encode(), "config.json": config}
    parts |= dict(zip(paths, layers, strict=True))
    return write_archive(work / "saved.tar", parts), digest(config)


def test_the_older_form_of_docker_save_is_read_and_checked(tmp_path: Path) -> None:
    layers = (tar_of(BASE_LAYER), tar_of(CHANGING_LAYER))
    file, name = saved(tmp_path, *layers)

    made = fill(OciSource(file, digest=name), tmp_path / "root")

    assert made.reference == name
    assert not (tmp_path / "root/etc/old").exists()
    with pytest.raises(SnapshotError, match="does not hold"):
        fill(OciSource(file, digest="sha256:0"), tmp_path / "other")
    file, _ = saved(tmp_path, *layers, lie=True)
    with pytest.raises(SnapshotError, match="has the digest"):
        fill(OciSource(file), tmp_path / "other")


def test_an_archive_without_an_index_says_how_to_write_one(tmp_path: Path) -> None:
    file = write_archive(tmp_path / "old.tar", {"oci-layout": b"{}"})
    (tmp_path / "junk").write_text("junk")

    with pytest.raises(SnapshotError, match="docker save"):
        fill(OciSource(file), tmp_path / "root")
    with pytest.raises(SnapshotError, match="no OCI archive"):
        fill(OciSource(tmp_path / "junk"), tmp_path / "root")
    with pytest.raises(CallerError, match="no archive"):
        fill(OciSource(tmp_path / "gone"), tmp_path / "root")


@pytest.mark.parametrize(
    "member",
    [
        Member("../out", b"x"),
        Member("etc/../../out", b"x"),
        Member("x", hard="../../out"),
    ],
    ids=["parent", "through", "hard-link"],
)
def test_a_name_that_leads_out_is_refused(tmp_path: Path, member: Member) -> None:
    (tmp_path / "out").write_text("mine")
    file, _ = archive(tmp_path, tar_of([*BASE_LAYER, member]))

    with pytest.raises(SnapshotError, match="leads out"):
        fill(OciSource(file), tmp_path / "root")
    assert (tmp_path / "out").read_text() == "mine"


def test_links_and_marks_cannot_reach_the_host(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host/file").write_text("mine")
    evil = (
        Member("door", link=str(tmp_path / "host")),
        Member("door/file", b"evil"),
        Member("up", link="../../../../../../.."),
        Member(f"up{tmp_path}/host/file", b"evil"),
    )
    hiding = (Member("door/.wh.file"), Member("door/.wh..wh..opq"))
    file, _ = archive(tmp_path, tar_of([*BASE_LAYER, *evil]), tar_of(hiding))

    fill(OciSource(file), tmp_path / "root")

    assert (tmp_path / "host/file").read_text() == "mine"


def test_capabilities_and_user_attributes_come_along(tmp_path: Path) -> None:
    marks = {"SCHILY.xattr.user.note": "x", "SCHILY.xattr.trusted.overlay.opaque": "y"}
    file, _ = archive(
        tmp_path, tar_of([*BASE_LAYER, Member("f", b"", attributes=marks)])
    )

    fill(OciSource(file), tmp_path / "root")

    assert os.listxattr(tmp_path / "root/f") == ["user.note"]


def test_a_folder_is_copied_with_owners_and_stays(tmp_path: Path) -> None:
    folder = mini_root(tmp_path / "folder")
    os.chown(folder / "home", 1000, 50)

    fill(FolderSource(folder), tmp_path / "root")

    info = (tmp_path / "root/home").stat()
    assert (info.st_uid, info.st_gid) == (1000, 50)
    assert (folder / "usr/bin/sh").exists()


def test_a_folder_with_foreign_owners_is_refused(tmp_path: Path) -> None:
    folder = mini_root(tmp_path / "folder")
    os.chown(folder / "home", 100_000, 100_000)

    with pytest.raises(SnapshotError, match="outside"):
        fill(FolderSource(folder), tmp_path / "root")
    with pytest.raises(CallerError, match="no folder"):
        fill(FolderSource(tmp_path / "gone"), tmp_path / "other")


class FakeDocker:
    """The part of a Docker client that the source uses, over one tar stream."""

    def __init__(self, content: bytes, *, known: bool = True) -> None:
        self.content = content
        self.known = known
        self.removed = 0
        self.id = "sha256:" + "a" * 64
        self.attrs = {"RepoDigests": ["tiny@sha256:" + "b" * 64]}
        self.images = self.containers = self

    def get(self, reference: str) -> FakeDocker:
        if not self.known:
            raise importlib.import_module("docker.errors").ImageNotFound(
                "no such image"
            )
        return self

    def pull(self, reference: str) -> FakeDocker:
        raise importlib.import_module("docker.errors").NotFound("no such repository")

    def create(self, image: str, **options: Any) -> FakeDocker:
        assert options["network_disabled"]
        return self

    def export(self) -> Iterator[bytes]:
        for start in range(0, len(self.content), 1000):
            yield self.content[start : start + 1000]

    def remove(self, *, force: bool) -> None:
        self.removed += force

    def version(self) -> dict[str, str]:
        return {"Version": "1.2.3"}


def test_a_docker_image_is_exported_and_its_container_removed(tmp_path: Path) -> None:
    client = FakeDocker(tar_of(BASE_LAYER))
    source = DockerSource("tiny@sha256:" + "b" * 64, connect=lambda: client)

    made = fill(source, tmp_path / "root")

    assert made == Provenance("docker", client.id, "docker 1.2.3")
    assert (tmp_path / "root/bin").is_symlink()
    assert client.removed == 1


def test_a_docker_image_with_another_digest_is_refused(tmp_path: Path) -> None:
    client = FakeDocker(tar_of(BASE_LAYER))
    source = DockerSource("tiny@sha256:" + "c" * 64, connect=lambda: client)

    with pytest.raises(SnapshotError, match="has the digests") as caught:
        fill(source, tmp_path / "root")
    assert "b" * 64 in str(caught.value)


def test_a_docker_image_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    client = FakeDocker(b"", known=False)

    with pytest.raises(SnapshotError, match="cannot give the image tiny"):
        fill(DockerSource("tiny", connect=lambda: client), tmp_path / "root")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_without_a_daemon_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")

    with pytest.raises(MissingRequirement, match="No Docker daemon") as caught:
        connect_from_environment()
    assert "oci:FILE" in caught.value.remedy
    del caught
    gc.collect()  # the SDK forgets to close the socket that it could not connect


@pytest.mark.parametrize("text", ["base", "zip:x", "oci:", ""])
def test_what_names_no_source_is_refused(text: str) -> None:
    with pytest.raises(CallerError, match="names no source"):
        source_from(text)


def test_sources_are_read_from_words(tmp_path: Path) -> None:
    assert isinstance(source_from("docker:debian:12"), DockerSource)
    assert isinstance(source_from("folder:/srv"), FolderSource)
    assert isinstance(source_from(f"oci:x.tar@sha256:{'0' * 64}"), OciSource)
