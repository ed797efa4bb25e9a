from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rlvr_envs.errors import SnapshotError
from rlvr_envs.records import Places, digest_of
from rlvr_envs.snapshots.layers import LayerStore
from rlvr_envs.snapshots.sealing import seal
from rlvr_envs.snapshots.tree import tree_digest
from tests.snapshots.trees import needs_root

pytestmark = needs_root
DIGEST = digest_of(["a layer"])


@pytest.fixture
def store(tmp_path: Path) -> LayerStore:
    return LayerStore(Places(store=tmp_path / "store"))


def test_a_layer_is_built_once(store: LayerStore) -> None:
    calls = []

    def build(root: Path) -> None:
        calls.append(root)
        (root / "file").write_text("x")

    one, two = store.layer(DIGEST, build), store.layer(DIGEST, build)

    assert one == two
    assert len(calls) == 1
    assert (one.path / "file").read_text() == "x"
    assert not one.shifted
    assert store.has(DIGEST)


def test_threads_that_want_one_layer_build_it_once(store: LayerStore) -> None:
    calls = []
    start = threading.Barrier(8)

    def build(root: Path) -> None:
        calls.append(root)

    def want() -> None:
        start.wait(10)
        store.layer(DIGEST, build)

    threads = [threading.Thread(target=want) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len(calls) == 1


def test_a_failed_build_leaves_nothing_and_can_be_tried_again(
    store: LayerStore,
) -> None:
    def fail(root: Path) -> None:
        (root / "half").touch()
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        store.layer(DIGEST, fail)

    assert not store.has(DIGEST)
    layer = store.layer(DIGEST, lambda root: (root / "whole").touch())
    assert [path.name for path in layer.path.iterdir()] == ["whole"]


def test_another_process_finds_a_changed_layer(store: LayerStore) -> None:
    layer = store.layer(DIGEST, lambda root: (root / "file").touch())
    (layer.path / "file").write_text("changed")
    text = (
        "import sys, pathlib\n"
        "from rlvr_envs.records import Places\n"
        "from rlvr_envs.snapshots.layers import LayerStore\n"
        "store = LayerStore(Places(store=pathlib.Path(sys.argv[1])))\n"
        "store.layer(sys.argv[2], lambda root: None)\n"
    )
    argv = [sys.executable, "-c", text, str(store.store), DIGEST]

    answer = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert answer.returncode == 1
    assert "SnapshotError: The stored layer" in answer.stderr
    assert "rlvr images prune" in answer.stderr


def test_a_layer_whose_marks_were_never_written_is_taken(store: LayerStore) -> None:
    layer = store.layer(DIGEST, lambda root: (root / "file").touch())
    layer.path.with_suffix(".json").unlink()
    text = (
        "import sys, pathlib\n"
        "from rlvr_envs.records import Places\n"
        "from rlvr_envs.snapshots.layers import LayerStore\n"
        "store = LayerStore(Places(store=pathlib.Path(sys.argv[1])))\n"
        "store.layer(sys.argv[2], lambda root: None)\n"
    )

    subprocess.run([sys.executable, "-c", text, str(store.store), DIGEST], check=True)

    assert layer.path.with_suffix(".json").is_file()


def upper_with_everything(folder: Path, *, shift: int) -> Path:
    (folder / "dir").mkdir(parents=True)
    (folder / "dir/file").write_text("file")
    (folder / "dir/file").chmod(0o4750)
    os.link(folder / "dir/file", folder / "again")
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    os.mknod(folder / "gone", stat.S_IFCHR, 0)
    os.setxattr(folder / "dir", "trusted.overlay.opaque", b"y")
    os.setxattr(folder / "dir/file", "user.note", b"note")
    os.setxattr(folder / "dir/file", "trusted.overlay.origin", b"host")
    for number, path in enumerate([folder, *sorted(folder.rglob("*"))]):
        os.chown(path, shift + number % 3, shift, follow_symlinks=False)
        os.utime(path, (1000 + number, 1000 + number), follow_symlinks=False)
    (folder / "dir/file").chmod(0o4750)
    return folder


def test_sealing_brings_ids_back_and_keeps_marks(tmp_path: Path) -> None:
    upper = upper_with_everything(tmp_path / "upper", shift=100_000)
    layer = tmp_path / "layer"
    layer.mkdir()

    seal(upper, layer, latest_s=1003)

    info = (layer / "dir/file").stat()
    assert info.st_uid < 3
    assert stat.S_IMODE(info.st_mode) == 0o4750
    assert info.st_nlink == 2
    assert (layer / "gone").lstat().st_rdev == 0
    assert stat.S_ISFIFO((layer / "pipe").lstat().st_mode)
    assert os.getxattr(layer / "dir", "trusted.overlay.opaque") == b"y"
    assert os.listxattr(layer / "dir/file") == ["user.note"]
    assert max(path.lstat().st_mtime for path in layer.rglob("*")) <= 1003


def test_sealing_a_sealed_layer_gives_it_again(tmp_path: Path) -> None:
    upper = upper_with_everything(tmp_path / "upper", shift=100_000)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

    seal(upper, tmp_path / "one", latest_s=2000)
    seal(tmp_path / "one", tmp_path / "two", latest_s=2000, id_base=0)

    assert tree_digest(tmp_path / "one") == tree_digest(tmp_path / "two")


def test_sealing_onto_a_layer_takes_away_what_went(tmp_path: Path) -> None:
    layer, upper = tmp_path / "layer", tmp_path / "upper"
    for name in ("kept", "emptied", "removed"):
        (layer / name).mkdir(parents=True)
        (layer / name / "old").touch()
    (layer / "file").write_text("old")
    (upper / "kept").mkdir(parents=True)
    (upper / "emptied").mkdir()
    os.setxattr(upper / "emptied", "trusted.overlay.opaque", b"y")
    os.mknod(upper / "removed", stat.S_IFCHR, 0)
    (upper / "file").mkdir()
    upper.chmod(0o711)

    seal(upper, layer, latest_s=0, id_base=0)

    assert (layer / "kept/old").exists()
    assert list((layer / "emptied").iterdir()) == []
    assert stat.S_ISCHR((layer / "removed").lstat().st_mode)
    assert (layer / "file").is_dir()
    assert stat.S_IMODE(layer.stat().st_mode) == 0o711


def test_an_owner_outside_the_range_is_refused(tmp_path: Path) -> None:
    upper, layer = tmp_path / "upper", tmp_path / "layer"
    upper.mkdir()
    layer.mkdir()
    os.chown(upper, 100_000, 100_000)
    (upper / "file").touch()

    with pytest.raises(SnapshotError, match="outside the sandbox's range"):
        seal(upper, layer, latest_s=0)
