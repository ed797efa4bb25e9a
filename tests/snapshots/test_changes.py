from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlvr_envs.errors import SnapshotError
from rlvr_envs.records import Layer
from rlvr_envs.snapshots.changes import FEW, LONGEST, changes
from rlvr_envs.snapshots.sealing import seal
from rlvr_envs.state import Change
from tests.snapshots.overlays import needs_mount, overlay, picture

IDS = 100_000
pytestmark = needs_mount


def base_tree(root: Path) -> Path:
    """A small base whose owners carry the range's host ids, like an idmapped mount."""
    for name in ("a/b/deep", "bin", "etc"):
        (root / name).mkdir(parents=True)
    (root / "etc/conf").write_text("one\n")
    (root / "etc/other").write_text("two\n")
    (root / "a/b/deep/leaf").write_text("leaf")
    (root / "bin/tool").write_text("#!/bin/sh\n")
    (root / "bin/tool").chmod(0o755)
    (root / "bin/alias").symlink_to("tool")
    shift(root)
    return root


def shift(root: Path) -> None:
    for path in [root, *root.rglob("*")]:
        info = path.lstat()
        if info.st_uid < IDS:
            os.chown(path, info.st_uid + IDS, info.st_gid + IDS, follow_symlinks=False)


def seen(upper: Path, *lowers: Path) -> dict[str, tuple[str, str]]:
    layers = [Layer("sha256:x", path, shifted=True) for path in lowers]
    return {item.path: (item.kind, item.type) for item in changes(upper, layers)}


def test_an_untouched_upper_has_no_changes(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    with overlay(tmp_path, [base]) as (_, upper):
        assert seen(upper, base) == {}


def test_added_modified_and_removed_files_are_told_apart(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    with overlay(tmp_path, [base]) as (root, upper):
        (root / "etc/new").write_text("new")
        (root / "etc/conf").write_text("ONE\n")
        (root / "etc/other").unlink()

        assert seen(upper, base) == {
            "/etc/new": ("added", "file"),
            "/etc/conf": ("modified", "file"),
            "/etc/other": ("removed", "file"),
        }


def test_a_copy_up_that_altered_nothing_is_no_change(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    with overlay(tmp_path, [base]) as (root, upper):
        os.utime(root / "etc/conf")
        os.utime(root / "a/b")

        assert (upper / "etc/conf").exists()
        assert seen(upper, base) == {}


def test_a_changed_mode_or_owner_is_metadata(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    with overlay(tmp_path, [base]) as (root, upper):
        (root / "etc/conf").chmod(0o600)
        os.chown(root / "a", IDS + 1000, IDS)
        os.setxattr(root / "bin/tool", "user.mark", b"1")

        assert seen(upper, base) == {
            "/a": ("metadata", "dir"),
            "/bin/tool": ("metadata", "file"),
            "/etc/conf": ("metadata", "file"),
        }


def test_the_root_itself_can_change(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    with overlay(tmp_path, [base]) as (root, upper):
        root.chmod(0o700)

        assert seen(upper, base) == {"/": ("metadata", "dir")}


def test_a_removed_folder_lists_all_that_it_held(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    with overlay(tmp_path, [base]) as (root, upper):
        shutil.rmtree(root / "a")

        assert seen(upper, base) == {
            "/a": ("removed", "dir"),
            "/a/b": ("removed", "dir"),
            "/a/b/deep": ("removed", "dir"),
            "/a/b/deep/leaf": ("removed", "file"),
        }


def test_an_opaque_folder_is_expanded(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    with overlay(tmp_path, [base]) as (root, upper):
        shutil.rmtree(root / "bin")
        (root / "bin").mkdir()
        os.chown(root / "bin", IDS, IDS)
        (root / "bin/tool").write_text("#!/bin/sh\n")
        (root / "bin/tool").chmod(0o755)
        os.chown(root / "bin/tool", IDS, IDS)

        assert os.getxattr(upper / "bin", "trusted.overlay.opaque") == b"y"
        assert seen(upper, base) == {"/bin/alias": ("removed", "link")}


def test_a_folder_that_became_a_link_lists_what_it_held(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    with overlay(tmp_path, [base]) as (root, upper):
        shutil.rmtree(root / "bin")
        (root / "bin").symlink_to("/etc")

        assert seen(upper, base) == {
            "/bin": ("modified", "link"),
            "/bin/alias": ("removed", "link"),
            "/bin/tool": ("removed", "file"),
        }


def test_a_link_is_compared_by_its_target_and_never_followed(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("x")
    with overlay(tmp_path, [base]) as (root, upper):
        (root / "bin/alias").unlink()
        (root / "bin/alias").symlink_to("/etc/passwd")
        (root / "way-out").symlink_to(tmp_path / "outside")

        assert seen(upper, base) == {
            "/bin/alias": ("modified", "link"),
            "/way-out": ("added", "link"),
        }


def test_special_files_are_named_by_their_type(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    with overlay(tmp_path, [base]) as (root, upper):
        os.mkfifo(root / "pipe")
        os.mkfifo(root / "etc/pipe")
        (root / "fresh").mkdir()
        os.mkfifo(root / "fresh/pipe")

        found = seen(upper, base)
        assert found["/pipe"] == found["/etc/pipe"] == ("added", "fifo")
        assert found["/fresh/pipe"] == ("added", "fifo")


def test_hostile_names_come_through(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    with overlay(tmp_path, [base]) as (root, upper):
        for name in (b"new\nline", b"\xff\xfe", b"-rf *", "ütf-8".encode()):
            Path(os.fsdecode(os.fsencode(root / "etc") + b"/" + name)).write_text("x")

        names = {os.fsencode(path) for path in seen(upper, base)}
        assert b"/etc/new\nline" in names
        assert b"/etc/\xff\xfe" in names
        assert len(names) == 4


def test_many_names_in_a_known_folder_are_compared(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    with overlay(tmp_path, [base]) as (root, upper):
        for number in range(FEW + 1):
            (root / "etc" / f"new-{number}").touch()
        (root / "etc/conf").write_text("changed")
        (root / "etc/other").unlink()

        found = seen(upper, base)
        assert found.pop("/etc/conf") == ("modified", "file")
        assert found.pop("/etc/other") == ("removed", "file")
        assert list(found.values()) == [("added", "file")] * (FEW + 1)


def test_a_very_deep_tree_is_named_as_far_as_paths_reach(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    with overlay(tmp_path, [base]) as (root, upper):
        depth = 3000
        here = os.open(root, os.O_RDONLY)
        for _ in range(depth):
            os.mkdir("d" * 20, dir_fd=here)
            below = os.open("d" * 20, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)

        found = seen(upper, base)
        assert len(found) == LONGEST // 21 + 1
        assert set(found.values()) == {("added", "dir")}


def test_several_layers_are_one_base(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    (tmp_path / "one").mkdir()
    with overlay(tmp_path / "one", [base]) as (root, upper):
        (root / "etc/other").unlink()
        (root / "etc/mine").write_text("mine")
        shutil.rmtree(root / "bin")
        (root / "bin").mkdir()
        shift(root)
        layer = tmp_path / "layer"
        layer.mkdir()
        seal(upper, layer, latest_s=0)
    shift(layer)
    with overlay(tmp_path, [base, layer]) as (root, upper):
        (root / "etc/other").write_text("again")
        (root / "etc/mine").unlink()
        (root / "bin/tool").write_text("new here")

        assert seen(upper, base, layer) == {
            "/bin/tool": ("added", "file"),
            "/etc/mine": ("removed", "file"),
            "/etc/other": ("added", "file"),
        }


def test_plain_and_shifted_layers_count_owners_alike(tmp_path: Path) -> None:
    base = base_tree(tmp_path / "base")
    plain = tmp_path / "plain"
    subprocess.run(["cp", "-a", str(base), str(plain)], check=True)
    for path in [plain, *plain.rglob("*")]:
        os.chown(path, 0, 0, follow_symlinks=False)
    with overlay(tmp_path, [base]) as (root, upper):
        os.utime(root / "etc/conf")

        assert changes(upper, [Layer("sha256:x", plain)]) == ()
        assert Change("/etc/conf", "metadata", "file") in changes(
            upper, [Layer("sha256:x", base)]
        )


def test_a_missing_upper_voids_the_episode(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="comparing"):
        changes(tmp_path / "gone", [])


NAMES = st.sampled_from(
    ["a", "a/b", "a/b/deep", "bin", "etc", "etc/conf", "bin/tool", "new", "etc/new"]
)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write(path: Path) -> None:
    if not path.is_dir() and not path.is_symlink():
        path.write_text(f"{path.name}\n")


def mkdir(path: Path) -> None:
    remove(path)
    path.mkdir()


def link(path: Path) -> None:
    remove(path)
    path.symlink_to("/etc/conf")


def chmod(path: Path) -> None:
    if path.exists() and not path.is_symlink():
        path.chmod(0o700)


def touch(path: Path) -> None:
    if os.path.lexists(path):
        os.utime(path, follow_symlinks=False)


ACTS = (write, mkdir, remove, link, chmod, touch)


def inside(root: Path, name: str) -> bool:
    """Whether a name's parents are folders: a link would lead out of the test."""
    parents = [path for path in (root / name).parents if root in path.parents]
    return all(path.is_dir() and not path.is_symlink() for path in parents)


@given(actions=st.lists(st.tuples(st.sampled_from(ACTS), NAMES), max_size=8))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_changes_are_the_difference_of_two_pictures(
    tmp_path_factory: pytest.TempPathFactory,
    actions: list[tuple[Callable[[Path], None], str]],
) -> None:
    work = tmp_path_factory.mktemp("pictures")
    base = base_tree(work / "base")
    before = picture(base)
    with overlay(work, [base]) as (root, upper):
        for action, name in actions:
            if inside(root, name):
                action(root / name)
        shift(root)
        after = picture(root)
        layer = work / "layer"
        layer.mkdir()
        seal(upper, layer, latest_s=2_000_000_000)
        found = seen(upper, base)

    expected = {}
    for path in sorted(set(before) | set(after)):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        if new is None:
            assert old is not None
            expected[path] = ("removed", old[0])
        elif old is None:
            expected[path] = ("added", new[0])
        else:
            kind = "metadata" if old[:2] == new[:2] else "modified"
            expected[path] = (kind, new[0])
    assert found == expected

    shift(layer)
    (work / "again").mkdir()
    with overlay(work / "again", [base, layer]) as (root, _):
        assert picture(root) == after
    shutil.rmtree(work)
