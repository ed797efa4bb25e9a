from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from rlvr_envs.errors import CallerError, MissingRequirement, SnapshotError
from rlvr_envs.records import Places
from rlvr_envs.snapshots.archive import export_image, import_image
from rlvr_envs.snapshots.locking import PARTIAL, partial
from rlvr_envs.snapshots.pruning import prune
from rlvr_envs.snapshots.sources.base import Progress, Provenance
from rlvr_envs.snapshots.sources.folder import FolderSource
from rlvr_envs.snapshots.store import ImageStore
from rlvr_envs.snapshots.tree import tree_digest
from tests.snapshots.trees import mini_image, mini_root, needs_root

pytestmark = needs_root


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(store=tmp_path / "store", run=tmp_path / "run")


def test_an_image_is_stored_by_the_digest_of_its_tree(
    places: Places, tmp_path: Path
) -> None:
    image = mini_image(places, tmp_path)

    layer = ImageStore(places).layer("mini")
    assert layer.digest == image.digest == tree_digest(layer.path)
    assert not layer.shifted
    assert ImageStore(places).names() == ("mini",)
    assert list((places.store / PARTIAL).iterdir()) == []
    assert layer.path.parent.stat().st_mode & 0o777 == 0o700


def test_two_builds_of_one_source_have_one_digest(
    places: Places, tmp_path: Path
) -> None:
    one = mini_image(places, tmp_path)
    shutil.rmtree(tmp_path / "folder-mini")

    assert mini_image(places, tmp_path).digest == one.digest


def test_an_image_has_the_agent_and_nothing_volatile(
    places: Places, tmp_path: Path
) -> None:
    mini_image(places, tmp_path)

    root = ImageStore(places).layer("mini").path
    assert (
        "agent:x:1000:1000::/home/agent:/bin/bash" in (root / "etc/passwd").read_text()
    )
    assert (root / "home/agent").stat().st_uid == 1000
    assert (root / "etc/resolv.conf").read_text() == "nameserver 127.0.0.1\n"
    assert (root / "etc/hostname").read_text() == "sandbox\n"
    assert (root / "etc/machine-id").read_text() == ""
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777
    assert list((root / "var/log").iterdir()) == []


def test_an_account_with_the_agents_uid_is_left_alone(
    places: Places, tmp_path: Path
) -> None:
    folder = mini_root(tmp_path / "folder")
    with (folder / "etc/passwd").open("a") as file:
        file.write("node:x:1000:1000::/home/node:/bin/sh")

    ImageStore(places).build("node", FolderSource(folder))

    text = (ImageStore(places).layer("node").path / "etc/passwd").read_text()
    assert "agent" not in text


def test_identity_files_are_never_written_through_links(
    places: Places, tmp_path: Path
) -> None:
    folder = mini_root(tmp_path / "folder")
    (tmp_path / "outside").write_text("untouched")
    (folder / "etc/resolv.conf").symlink_to(tmp_path / "outside")
    (folder / "var/tmp").symlink_to(tmp_path)

    ImageStore(places).build("sly", FolderSource(folder))

    assert (tmp_path / "outside").read_text() == "untouched"
    root = ImageStore(places).layer("sly").path
    assert not (root / "etc/resolv.conf").is_symlink()


def test_a_missing_image_names_the_command(places: Places) -> None:
    with pytest.raises(SnapshotError, match="rlvr images build base"):
        ImageStore(places).layer("base")


def test_a_changed_image_names_both_digests_and_the_remedy(
    places: Places, tmp_path: Path
) -> None:
    image = mini_image(places, tmp_path)
    root = ImageStore(places).root(image)
    (root / "etc/passwd").write_text("root::0:0::/:/bin/sh\n")

    with pytest.raises(SnapshotError, match="changed") as caught:
        ImageStore(places).verify("mini")
    assert image.digest in str(caught.value)
    assert tree_digest(root) in str(caught.value)
    assert "--force mini" in caught.value.remedy
    with pytest.raises(SnapshotError, match="changed"):
        ImageStore(places).layer("mini")


def test_building_again_mends_a_changed_image(places: Places, tmp_path: Path) -> None:
    image = mini_image(places, tmp_path)
    (ImageStore(places).root(image) / "etc/passwd").unlink()
    shutil.rmtree(tmp_path / "folder-mini")

    assert mini_image(places, tmp_path) == image
    assert ImageStore(places).verify("mini") == image
    assert list((places.store / PARTIAL).iterdir()) == []


def test_a_moved_store_is_read_once_and_trusted_again(
    places: Places, tmp_path: Path
) -> None:
    image = mini_image(places, tmp_path)
    moved = Places(store=tmp_path / "moved")
    subprocess.run(["cp", "-a", str(places.store), str(moved.store)], check=True)
    marks = next((moved.store / "images").glob("*.stamp"))
    before = marks.read_text()

    assert ImageStore(moved).layer("mini").digest == image.digest
    assert marks.read_text() != before


def test_damaged_metadata_is_an_error_with_a_remedy(
    places: Places, tmp_path: Path
) -> None:
    mini_image(places, tmp_path)
    (places.store / "names/mini.json").write_text("{}")

    with pytest.raises(SnapshotError, match="schema"):
        ImageStore(places).image("mini")
    (places.store / "names/mini.json").write_text("{")
    with pytest.raises(SnapshotError, match="damaged"):
        ImageStore(places).image("mini")


@pytest.mark.parametrize("name", ["", "../x", "A", "a/b", ".hidden"])
def test_a_name_that_is_no_plain_word_is_refused(places: Places, name: str) -> None:
    with pytest.raises(CallerError, match="no image name"):
        ImageStore(places).has(name)


def test_what_is_no_root_file_system_is_refused(places: Places, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(SnapshotError, match="no /bin/sh"):
        ImageStore(places).build("empty", FolderSource(tmp_path / "empty"))
    assert ImageStore(places).names() == ()


def test_an_unlocked_repository_fails_the_build(places: Places, tmp_path: Path) -> None:
    folder = mini_root(tmp_path / "folder")
    subprocess.run(["git", "init", "-q", str(folder / "srv")], check=True)
    (folder / "srv/.git/ORIG_HEAD").write_text("1" * 40)

    with pytest.raises(SnapshotError, match="ORIG_HEAD"):
        ImageStore(places).build("repo", FolderSource(folder))
    assert ImageStore(places).names() == ()


class Failing:
    """A source that writes until the disk is full."""

    latest_s = 0

    def fill(self, root: Path, *, progress: Progress) -> Provenance:
        (root / "part").write_text("x")
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_named_and_leaves_nothing(places: Places) -> None:
    with pytest.raises(SnapshotError, match="No space is left") as caught:
        ImageStore(places).build("full", Failing())

    assert "prune" in caught.value.remedy
    assert list((places.store / PARTIAL).iterdir()) == []
    assert ImageStore(places).names() == ()


def test_a_really_full_disk_is_named(tmp_path: Path) -> None:
    store = tmp_path / "small"
    store.mkdir()
    folder = mini_root(tmp_path / "folder")
    (folder / "big").write_bytes(b"x" * (3 << 20))
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(store)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not allowed")
    try:
        with pytest.raises(SnapshotError, match="space"):
            ImageStore(Places(store=store)).build("full", FolderSource(folder))
    finally:
        subprocess.run(["umount", str(store)], check=True)


def test_a_store_that_is_a_file_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(MissingRequirement, match="--store"):
        mini_image(Places(store=tmp_path / "file"), tmp_path)


class Slow:
    """A source that does not end before a second builder waits, or has begun too."""

    latest_s = 1000

    def __init__(self, folder: Path, log: Path, lock: Path) -> None:
        self._folder = folder
        self._log = log
        self._lock = lock

    def fill(self, root: Path, *, progress: Progress) -> Provenance:
        self._note("begin")
        deadline = time.monotonic() + 60
        while self._alone() and time.monotonic() < deadline:
            time.sleep(0.01)
        self._note("end")
        return FolderSource(self._folder).fill(root, progress=progress)

    def _note(self, word: str) -> None:
        with self._log.open("a") as file:
            file.write(f"{word}\n")

    def _alone(self) -> bool:
        if len(self._log.read_text().split()) > 1:
            return False
        inode = f":{self._lock.stat().st_ino} "
        lines = Path("/proc/locks").read_text().splitlines()
        return not any("->" in line and inode in line for line in lines)


def build_slowly(store: Path, folder: Path, log: Path) -> None:
    ImageStore(Places(store=store)).build(
        "same", Slow(folder, log, store / "locks/image-same.lock")
    )


def test_two_processes_that_build_at_once_take_turns(
    places: Places, tmp_path: Path
) -> None:
    folder = mini_root(tmp_path / "folder")
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    args = (places.store, folder, log)
    builders = [context.Process(target=build_slowly, args=args) for _ in range(2)]

    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(60)

    assert [builder.exitcode for builder in builders] == [0, 0]
    assert log.read_text().split() == ["begin", "end", "begin", "end"]
    assert ImageStore(places).verify("same").name == "same"


def test_an_image_travels_in_a_file(places: Places, tmp_path: Path) -> None:
    folder = mini_root(tmp_path / "folder")
    tool = folder / "usr/bin/tool"
    tool.write_bytes(b"tool")
    tool.chmod(0o4755)
    os.link(tool, folder / "usr/bin/tool2")
    os.setxattr(tool, "user.note", b"\x00\xff")
    os.chown(folder / "home", 1234, 1234)
    os.mkfifo(folder / "pipe")
    (folder / "etc" / os.fsdecode(b"\xff\n")).write_text("odd")
    image = ImageStore(places).build("mini", FolderSource(folder))
    other = ImageStore(Places(store=tmp_path / "other"))

    for suffix in ("tar", "tar.gz"):
        file = tmp_path / f"mini.{suffix}"
        export_image(ImageStore(places), "mini", file)
        brought = import_image(other, file, name="brought")
        assert brought.digest == image.digest
        assert brought.provenance == image.provenance
    root = other.layer("brought").path
    assert (root / "usr/bin/tool").stat().st_nlink == 2
    assert tarfile.is_tarfile(tmp_path / "mini.tar")


def test_equal_images_give_equal_files(places: Places, tmp_path: Path) -> None:
    mini_image(places, tmp_path)
    files = [tmp_path / "one.tar", tmp_path / "two.tar"]

    for file in files:
        export_image(ImageStore(places), "mini", file)

    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_file_whose_tree_was_altered_is_refused(
    places: Places, tmp_path: Path
) -> None:
    mini_image(places, tmp_path)
    file = tmp_path / "mini.tar"
    export_image(ImageStore(places), "mini", file)
    file.write_bytes(file.read_bytes().replace(b"root:x:0:0:root", b"evil:x:0:0:evil"))
    other = ImageStore(Places(store=tmp_path / "other"))

    with pytest.raises(SnapshotError, match="expected was"):
        import_image(other, file)
    assert other.names() == ()


def test_what_is_no_exported_image_is_refused(places: Places, tmp_path: Path) -> None:
    store = ImageStore(places)
    (tmp_path / "junk").write_text("junk" * 1000)
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass

    for name in ("junk", "empty.tar"):
        with pytest.raises(SnapshotError, match="no exported image"):
            import_image(store, tmp_path / name)
    with pytest.raises(CallerError, match="no file"):
        import_image(store, tmp_path / "gone")


def test_pruning_removes_what_no_name_needs(places: Places, tmp_path: Path) -> None:
    mini_image(places, tmp_path)
    shutil.rmtree(tmp_path / "folder-mini")
    folder = mini_root(tmp_path / "folder")
    (folder / "etc/new").write_text("new")
    kept = ImageStore(places).build("mini", FolderSource(folder))
    (places.store / PARTIAL / "left").mkdir()

    gone = prune(places)

    assert (gone.images, gone.layers, gone.unfinished) == (1, 0, 1)
    assert gone.content_bytes > 0
    assert ImageStore(places).verify("mini") == kept
    assert prune(places).images == 0


def test_pruning_spares_an_unfinished_build_of_a_living_process(places: Places) -> None:
    with partial(places.store) as work:
        assert prune(places).unfinished == 0
        assert work.is_dir()


def test_a_store_in_use_is_not_pruned(places: Places, tmp_path: Path) -> None:
    mini_image(places, tmp_path)
    text = (
        "import sys, pathlib\n"
        "from rlvr_envs.records import Places\n"
        "from rlvr_envs.snapshots.store import ImageStore\n"
        f"ImageStore(Places(store=pathlib.Path({str(places.store)!r}))).layer('mini')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"

        with pytest.raises(CallerError, match="in use"):
            prune(places)

        holder.communicate("", timeout=30)
    prune(places)


def test_metadata_tells_where_an_image_came_from(
    places: Places, tmp_path: Path
) -> None:
    mini_image(places, tmp_path)

    data = json.loads((places.store / "names/mini.json").read_text())
    assert data["provenance"]["source"] == "folder"
    assert not any("time" in key or "date" in key for key in data)
