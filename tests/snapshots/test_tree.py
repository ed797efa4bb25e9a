from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlvr_envs.snapshots.tree import clamp_times, size_of, stamp, tree_digest, walk
from tests.snapshots.trees import needs_root

NAMES = st.text("abé\udcff\n .", min_size=1, max_size=6).filter(
    lambda name: name not in (".", "..")
)
TREES = st.dictionaries(NAMES, st.binary(max_size=40), max_size=6)


def lay(root: Path, content: list[tuple[str, bytes]]) -> None:
    root.mkdir()
    for name, data in content:
        (root / name).write_bytes(data)
        os.utime(root / name, (5, 5))
    os.utime(root, (5, 5))


@given(content=TREES)
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_the_digest_does_not_depend_on_the_order_of_writing(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, bytes]
) -> None:
    work = tmp_path_factory.mktemp("order")
    lay(work / "one", list(content.items()))
    lay(work / "two", list(reversed(content.items())))

    assert tree_digest(work / "one") == tree_digest(work / "two")


def small(root: Path) -> Path:
    (root / "a/b").mkdir(parents=True)
    (root / "a/file").write_text("text")
    (root / "a/link").symlink_to("file")
    clamp_times(root, 1000)
    return root


ALTERATIONS: dict[str, Callable[[Path], object]] = {
    "bytes": lambda root: (root / "a/file").write_text("TEXT"),
    "size": lambda root: (root / "a/file").write_text("text more"),
    "mode": lambda root: (root / "a/file").chmod(0o600),
    "owner": lambda root: os.chown(root / "a/file", 7, 7),
    "time": lambda root: os.utime(root / "a/b", (1, 1)),
    "target": lambda root: relink(root / "a/link", "elsewhere"),
    "name": lambda root: (root / "a/b").rename(root / "a/c"),
    "added": lambda root: (root / "new").touch(),
    "removed": lambda root: (root / "a/b").rmdir(),
    "attribute": lambda root: os.setxattr(root / "a/file", "user.x", b"1"),
    "type": lambda root: retype(root / "a/b"),
}


def retype(path: Path) -> None:
    path.rmdir()
    path.touch()


def relink(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


@needs_root
@pytest.mark.parametrize("what", ALTERATIONS)
def test_the_digest_sees_each_alteration(tmp_path: Path, what: str) -> None:
    root = small(tmp_path / "root")
    before, mark = tree_digest(root), stamp(root)
    folder_times = {path: path.stat().st_mtime_ns for path in (root, root / "a")}

    ALTERATIONS[what](root)
    if what != "time":
        for path in (
            root / "a/file",
            root / "a/link",
            root / "a/b",
            root / "a/c",
            root / "new",
        ):
            if os.path.lexists(path):
                os.utime(path, (1000, 1000), follow_symlinks=False)
    for path, moment in folder_times.items():
        os.utime(path, ns=(moment, moment))

    assert tree_digest(root) != before
    assert stamp(root) != mark


def test_a_copy_has_the_same_digest_and_another_stamp(tmp_path: Path) -> None:
    root = small(tmp_path / "root")
    shutil.copytree(root, tmp_path / "copy", symlinks=True)

    assert tree_digest(tmp_path / "copy") == tree_digest(root)
    assert stamp(tmp_path / "copy") != stamp(root)


def test_clamping_moves_only_what_is_too_young(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    (tmp_path / "young").touch()
    (tmp_path / "link").symlink_to("nowhere")
    os.utime(tmp_path / "old", ns=(5_700_000_000, 5_700_000_000))

    clamp_times(tmp_path, 1000)

    assert (tmp_path / "old").stat().st_mtime_ns == 5_000_000_000
    assert (tmp_path / "young").stat().st_mtime == 1000
    assert (tmp_path / "link").lstat().st_mtime == 1000
    assert tmp_path.stat().st_mtime == 1000


def test_a_walk_lists_parents_first_and_follows_no_link(tmp_path: Path) -> None:
    root = small(tmp_path / "root")
    (root / "out").symlink_to(tmp_path)

    assert [entry.path for entry in walk(root)] == [
        "a",
        "a/b",
        "a/file",
        "a/link",
        "out",
    ]
    assert size_of(root).entries == 5
    assert size_of(root).content_bytes == 4
