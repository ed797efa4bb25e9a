from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typing_extensions import override

from rlvr_envs.envs.staging import stage
from rlvr_envs.errors import MissingRequirement, TaskError
from rlvr_envs.records import Places, Verification, digest_of
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from rlvr_envs.sandbox.runtime import close_runtimes
from rlvr_envs.snapshots.repositories import check_repository, lock_commands
from rlvr_envs.snapshots.store import ImageStore
from rlvr_envs.snapshots.tree import tree_digest
from rlvr_envs.tasks.task import FileSpec, Instance, Recipe, Task
from tests.snapshots.trees import mini_image, needs_root

pytestmark = needs_root
EPOCH_S = 1_705_309_200


def instance(
    folder: Path, recipe: Recipe, *, image: str = "mini", number: int = 0
) -> Instance:
    task = Task(
        name="t",
        folder=folder,
        title="T",
        difficulty="easy",
        tags=(),
        image=image,
        user=1000,
        workdir="/home/agent/work",
        epoch_s=EPOCH_S,
        version=1,
        budget={},
        env={},
        verification=Verification("artifacts", (), (), ()),
    )
    digest = digest_of([repr((recipe, number))])
    return Instance(task, number, "Do it.", recipe, digest)


class NoBackend(NamespaceSandbox):
    """Fails a test that starts a sandbox where none is needed."""

    @override
    def start(self) -> None:
        raise AssertionError("no sandbox is needed")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places(store=tmp_path / "store", run=tmp_path / "run")
    mini_image(found, tmp_path)
    return found


def staged(places: Places, recipe: Recipe, number: int = 0) -> Path:
    made = instance(places.store, recipe, number=number)
    return stage(made, places=places, backend=NoBackend).layers[1].path


def test_files_are_laid_with_owner_mode_and_time(places: Places) -> None:
    files = (
        FileSpec("/home/agent/work/a/b.txt", b"b", mode=0o640, user=1000),
        FileSpec("/home/agent/work/old", b"", mtime_s=5),
        FileSpec("/home/agent/work/link", b"a/b.txt", kind="link", user=1000),
        FileSpec("/home/agent/work/box", kind="dir", mode=0o700, user=1000),
        FileSpec("/srv/open", kind="dir"),
    )

    root = staged(places, Recipe(files))

    work = root / "home/agent/work"
    info = (work / "a/b.txt").stat()
    assert (info.st_uid, info.st_mode & 0o7777, info.st_mtime) == (1000, 0o640, EPOCH_S)
    assert (work / "a").stat().st_uid == 1000
    assert (work / "old").stat().st_mtime == 5
    assert str((work / "link").readlink()) == "a/b.txt"
    assert (work / "box").stat().st_mode & 0o7777 == 0o700
    assert (root / "srv/open").stat().st_mode & 0o7777 == 0o755


def test_the_workdir_is_made_for_the_tasks_user(places: Places) -> None:
    root = staged(places, Recipe())

    info = (root / "home/agent/work").stat()
    assert (info.st_uid, info.st_mode & 0o7777) == (1000, 0o755)


def test_folders_of_the_image_keep_what_they_had(places: Places) -> None:
    base = ImageStore(places).layer("mini").path
    root = staged(places, Recipe((FileSpec("/home/agent/x", b"", user=0),)))

    for name in (".", "home", "home/agent"):
        was, now = (base / name).stat(), (root / name).stat()
        assert (now.st_uid, now.st_mode, now.st_mtime) == (
            was.st_uid,
            was.st_mode,
            was.st_mtime,
        )


def test_a_link_of_the_image_is_followed_beneath_the_root(places: Places) -> None:
    root = staged(places, Recipe((FileSpec("/bin/tool", b"#!", mode=0o755),)))

    assert (root / "usr/bin/tool").is_file()
    assert not os.path.lexists(root / "bin")


def test_a_later_file_replaces_an_earlier_one(places: Places) -> None:
    files = (
        FileSpec("/x", kind="dir"),
        FileSpec("/x/y", b""),
        FileSpec("/x", b"now a file"),
        FileSpec("/z", b"now a link"),
        FileSpec("/z", b"/x", kind="link"),
    )

    root = staged(places, Recipe(files))

    assert (root / "x").read_bytes() == b"now a file"
    assert str((root / "z").readlink()) == "/x"


@pytest.mark.parametrize(
    "spec",
    [
        FileSpec("relative", b""),
        FileSpec("/a/../b", b""),
        FileSpec("/", b""),
        FileSpec("/a\0b", b""),
        FileSpec("/a", b"", kind="pipe"),
        FileSpec("/etc/passwd/x", b""),
    ],
    ids=["relative", "parent", "root", "null", "kind", "beneath-a-file"],
)
def test_a_file_that_cannot_be_laid_names_the_task(
    places: Places, spec: FileSpec
) -> None:
    with pytest.raises(TaskError, match=r"task\.yaml: "):
        staged(places, Recipe((spec,)))


def test_the_layer_is_one_for_an_instance_and_another_for_another(
    places: Places,
) -> None:
    recipe = Recipe((FileSpec("/a", b"1"),))
    one = stage(instance(places.store, recipe), places=places, backend=NoBackend)
    again = stage(instance(places.store, recipe), places=places, backend=NoBackend)
    other = stage(
        instance(places.store, recipe, number=1), places=places, backend=NoBackend
    )

    assert one == again
    assert one.digest != other.digest
    assert (
        one.layers[0].digest
        == other.layers[0].digest
        == ImageStore(places).image("mini").digest
    )


def test_an_unlocked_repository_fails_the_task_with_the_remedy(places: Places) -> None:
    files = (
        FileSpec("/srv/repo/.git/HEAD", b"ref: refs/heads/main\n"),
        FileSpec("/srv/repo/.git/logs/HEAD", b"the fix was here"),
    )

    with pytest.raises(TaskError, match="/srv/repo: logs is there") as caught:
        staged(places, Recipe(files))
    assert "lock_commands" in str(caught.value)
    assert str(caught.value).count("Remedy") == 1


@pytest.fixture(scope="module")
def real() -> Callable[[Recipe], Instance]:
    """Instances on the real base image, in the default store."""
    try:
        NamespaceSandbox.check()
    except MissingRequirement as error:
        pytest.skip(str(error))
    if not ImageStore().has("base"):
        pytest.skip("the base image is not built: rlvr images build base")
    return lambda recipe: instance(Path("/nowhere"), recipe, image="base")


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Callable[[str], Places]]:
    """Stores with layers of their own over what the default store has built."""

    def make(name: str) -> Places:
        close_runtimes()
        store = tmp_path / name
        store.mkdir()
        for part in ("images", "names", "launcher", "clock"):
            (Places().store / part).mkdir(exist_ok=True)
            (store / part).symlink_to(Places().store / part)
        return Places(store=store, run=tmp_path / f"{name}-run")

    yield make
    close_runtimes()


SETUP = (
    ("sh", "-c", "date +%s > /srv/now; rm /etc/motd; mkdir -p /srv/repo"),
    ("git", "-C", "/srv/repo", "init", "-q", "-b", "main"),
    ("sh", "-c", "cd /srv/repo && echo 'def f(): ...' > f.py && git add f.py"),
    (
        "git",
        "-C",
        "/srv/repo",
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@b",
        "commit",
        "-qm",
        "Base",
    ),
    ("chown", "-R", "1000:1000", "/srv/repo"),
    *lock_commands("/srv/repo"),
)


def test_setup_runs_as_root_under_the_frozen_clock(
    real: Callable[[Recipe], Instance], copies: Callable[[str], Places]
) -> None:
    recipe = Recipe((FileSpec("/srv/laid", b"laid", mtime_s=7),), setup=SETUP)

    first, second = (
        stage(real(recipe), places=copies(name), backend=NamespaceSandbox)
        for name in ("one", "two")
    )

    root = first.layers[1].path
    assert len(first.layers) == 2
    assert (root / "srv/laid").stat().st_mtime == 7
    assert EPOCH_S <= int((root / "srv/now").read_text()) < EPOCH_S + 5
    assert (root / "etc/motd").is_char_device()
    assert (root / "srv/repo/f.py").stat().st_uid == 1000
    assert max(path.lstat().st_mtime for path in root.rglob("*")) <= EPOCH_S
    was, now = first.layers[0].path.stat(), root.stat()
    assert (now.st_mode, now.st_uid, now.st_gid) == (
        was.st_mode,
        was.st_uid,
        was.st_gid,
    )
    check_repository(root / "srv/repo")
    assert first.digest == second.digest
    assert tree_digest(root) == tree_digest(second.layers[1].path)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("sh", "-c", "echo it broke; exit 3"), "ended with status 3: it broke"),
        (("no-such-program",), "cannot start"),
        (("false",), "it printed nothing"),
    ],
)
def test_a_failing_setup_command_shows_what_it_said(
    real: Callable[[Recipe], Instance],
    copies: Callable[[str], Places],
    argv: tuple[str, ...],
    words: str,
) -> None:
    recipe = Recipe(setup=(argv,))

    with pytest.raises(TaskError, match=words):
        stage(real(recipe), places=copies("one"), backend=NamespaceSandbox)


def test_a_repository_that_setup_did_not_lock_fails_the_task(
    real: Callable[[Recipe], Instance], copies: Callable[[str], Places]
) -> None:
    recipe = Recipe(setup=SETUP[:-1])

    with pytest.raises(TaskError, match="/srv/repo: COMMIT_EDITMSG is there"):
        stage(real(recipe), places=copies("one"), backend=NamespaceSandbox)
