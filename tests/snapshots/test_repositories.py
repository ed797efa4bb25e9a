from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rlvr_envs.errors import SnapshotError
from rlvr_envs.snapshots.repositories import (
    check_repository,
    check_tree,
    forget_machine,
    lock_commands,
    lock_repository,
)

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is missing")

ENVIRONMENT = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}


def git(repo: Path, *argv: str) -> str:
    answer = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *argv],
        cwd=repo,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout


def commit(repo: Path, name: str, text: str) -> str:
    (repo / name).write_text(text)
    git(repo, "add", name)
    git(repo, "commit", "-qm", f"Write {name}")
    return git(repo, "rev-parse", "HEAD").strip()


def young(folder: Path) -> Path:
    """A repository with a base commit, and the fix committed and taken back."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    base = commit(folder, "code.py", "def broken_fn(): ...\n")
    commit(folder, "code.py", "def fixed_fn(): ...\n")
    git(folder, "tag", "solution")
    git(folder, "branch", "future")
    (folder / "code.py").write_text("def fixed_fn(): stashed\n")
    git(folder, "stash", "-q")
    git(folder, "remote", "add", "origin", "https://example.org/x.git")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(folder, "reset", "-q", "--hard", base)
    (folder / ".git/FETCH_HEAD").write_text(base)
    return folder


def locked(folder: Path) -> Path:
    repo = young(folder)
    lock_repository(repo)
    return repo


def test_a_locked_repository_answers_every_search_with_nothing(tmp_path: Path) -> None:
    repo = locked(tmp_path / "repo")

    assert git(repo, "log", "--all", "--oneline").count("\n") == 1
    assert git(repo, "reflog") == ""
    assert git(repo, "stash", "list") == ""
    assert git(repo, "tag") == ""
    assert git(repo, "branch", "-a").split() == ["*", "main"]
    assert git(repo, "remote", "-v") == ""
    assert git(repo, "fsck", "--unreachable", "--no-reflogs") == ""
    assert git(repo, "log", "--all", "-S", "def fixed_fn", "--oneline") == ""
    hits = [
        path
        for path in (repo / ".git").rglob("*")
        if path.is_file() and b"fixed_fn" in path.read_bytes()
    ]
    assert hits == []
    packs = list((repo / ".git/objects/pack").glob("*.idx"))
    assert len(packs) == 1
    listed = git(repo, "verify-pack", "-v", str(packs[0])).splitlines()
    assert len([line for line in listed if " commit " in line]) == 1
    assert not (repo / ".git/ORIG_HEAD").exists()
    assert not (repo / ".git/FETCH_HEAD").exists()


def test_a_locked_repository_passes_and_works(tmp_path: Path) -> None:
    repo = locked(tmp_path / "repo")

    check_repository(repo)
    check_tree(tmp_path)
    assert git(repo, "status", "--porcelain") == ""
    commit(repo, "more.py", "x = 1\n")
    assert git(repo, "log", "--oneline").count("\n") == 2


def test_locking_is_deterministic_and_can_be_repeated(tmp_path: Path) -> None:
    def bytes_of(repo: Path) -> dict[str, bytes]:
        own = repo / ".git"
        return {
            str(path.relative_to(own)): path.read_bytes()
            for path in own.rglob("*")
            if path.is_file()
        }

    one, two = locked(tmp_path / "one"), locked(tmp_path / "two")
    first = bytes_of(one)
    lock_repository(one)

    assert first == bytes_of(two)
    assert first == bytes_of(one)


def test_an_unlocked_repository_fails_with_the_remedy(tmp_path: Path) -> None:
    young(tmp_path / "srv/repo")

    with pytest.raises(SnapshotError, match="not locked") as caught:
        check_tree(tmp_path)

    assert "/srv/repo: logs is there" in str(caught.value)
    assert "lock_commands" in caught.value.remedy


def test_a_declared_ref_stays_and_an_undeclared_one_goes(tmp_path: Path) -> None:
    repo = young(tmp_path / "repo")
    git(repo, "update-ref", "refs/remotes/origin/main", "main")
    kept = ["refs/heads/future", "refs/remotes/origin/main"]

    lock_repository(repo, refs=kept)

    check_repository(repo, refs=kept)
    check_tree(tmp_path, {"/repo": kept})
    assert "def fixed_fn" in git(repo, "show", "future:code.py")
    assert git(repo, "remote").split() == ["origin"]
    with pytest.raises(SnapshotError, match="refs/heads/future is not declared"):
        check_repository(repo)


def test_the_commands_for_a_sandbox_do_the_same(tmp_path: Path) -> None:
    repo = young(tmp_path / "repo")

    for argv in lock_commands(str(repo), user=os.getuid()):
        subprocess.run(argv, env=ENVIRONMENT, check=True)

    check_repository(repo)


def test_an_empty_repository_is_locked(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "repo")

    lock_repository(tmp_path / "repo")

    check_repository(tmp_path / "repo")


def test_a_bare_repository_is_found_and_checked(tmp_path: Path) -> None:
    repo = locked(tmp_path / "repo")
    git(tmp_path, "clone", "-q", "--bare", str(repo), "srv.git")

    with pytest.raises(SnapshotError, match=r"srv: .*hooks|setting remote"):
        check_tree(tmp_path)
    lock_repository(tmp_path / "srv.git")

    check_tree(tmp_path)


# Each hides the fix, or leads to it, in a repository that was locked before.
def reflog(repo: Path) -> None:
    (repo / ".git/logs").mkdir()
    (repo / ".git/logs/HEAD").write_text("x")


def original_head(repo: Path) -> None:
    (repo / ".git/ORIG_HEAD").write_text(git(repo, "rev-parse", "HEAD"))


def loose_object(repo: Path) -> str:
    (repo / "scratch").write_text("def fixed_fn(): ...\n")
    name = git(repo, "hash-object", "-w", "scratch")
    (repo / "scratch").unlink()
    return name


def packed_unreachable(repo: Path) -> None:
    subprocess.run(
        ["git", "pack-objects", "-q", ".git/objects/pack/pack"],
        cwd=repo,
        input=loose_object(repo).encode(),
        env=ENVIRONMENT,
        check=True,
        capture_output=True,
    )
    git(repo, "prune-packed")


def alternates(repo: Path) -> None:
    (repo / ".git/objects/info/alternates").write_text("/srv/other/objects\n")


def worktree(repo: Path) -> None:
    git(repo, "worktree", "add", "-q", "--detach", "../second")


def module(repo: Path) -> None:
    shutil.copytree(repo / ".git", repo / ".git/modules/lib")


def lost_found(repo: Path) -> None:
    (repo / ".git/lost-found/other").mkdir(parents=True)


def bundle(repo: Path) -> None:
    git(repo, "bundle", "create", "-q", "notes.txt", "main")


def stray_pack(repo: Path) -> None:
    pack = next((repo / ".git/objects/pack").glob("*.pack"))
    shutil.copy(pack, repo / "data.bin")


def gitfile(repo: Path) -> None:
    (repo / "lib").mkdir()
    (repo / "lib/.git").write_text("gitdir: /srv/elsewhere\n")


def linked_objects(repo: Path) -> None:
    (repo / ".git/objects").rename(repo.parent / "objects-elsewhere")
    (repo / ".git/objects").symlink_to(repo.parent / "objects-elsewhere")


def packed_ref(repo: Path) -> None:
    tip = git(repo, "rev-parse", "HEAD").strip()
    with (repo / ".git/packed-refs").open("a") as file:
        file.write(f"{tip} refs/tags/solution\n")


def loose_ref(repo: Path) -> None:
    git(repo, "tag", "solution")


def hook(repo: Path) -> None:
    (repo / ".git/hooks").mkdir(exist_ok=True)
    (repo / ".git/hooks/post-commit").write_text("#!/bin/sh\n")


def message(repo: Path) -> None:
    (repo / ".git/COMMIT_EDITMSG").write_text("Fix fixed_fn\n")


def remote(repo: Path) -> None:
    git(repo, "config", "remote.origin.url", "/srv/upstream")


def include(repo: Path) -> None:
    git(repo, "config", "include.path", "/srv/more")


def staged(repo: Path) -> None:
    (repo / "code.py").write_text("def fixed_fn(): ...\n")
    git(repo, "add", "code.py")
    git(repo, "repack", "-a", "-d", "-n", "-q")


def truncated(repo: Path) -> None:
    pack = next((repo / ".git/objects/pack").glob("*.pack"))
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:-30])


def broken_settings(repo: Path) -> None:
    (repo / ".git/config").write_text("[core\n")


def missing_history(repo: Path) -> None:
    (repo / ".git/packed-refs").write_text(f"{'1' * 40} refs/heads/main\n")


HIDING: dict[Callable[[Path], object], str] = {
    reflog: "logs is there",
    original_head: "ORIG_HEAD is there",
    loose_object: "is not packed",
    packed_unreachable: "in no declared history",
    alternates: "objects/info/alternates is there",
    worktree: "worktrees is there",
    module: "modules is there",
    lost_found: "lost-found is there",
    bundle: "a git bundle outside",
    stray_pack: "a git pack outside",
    gitfile: "points to a repository elsewhere",
    linked_objects: "objects is a link",
    packed_ref: "refs/tags/solution is not declared",
    loose_ref: "refs/tags/solution is not declared",
    hook: "hooks/post-commit is there",
    message: "COMMIT_EDITMSG is there",
    remote: "setting remote.origin.url",
    include: "setting include.path",
    staged: "in no declared history",
    truncated: "git cannot read it",
    broken_settings: "git cannot read it",
    missing_history: "git cannot read it",
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return locked(tmp_path_factory.mktemp("template") / "repo")


@pytest.mark.parametrize("hide", HIDING, ids=lambda hide: hide.__name__)
def test_each_hiding_place_is_found(
    tmp_path: Path, template: Path, hide: Callable[[Path], object]
) -> None:
    repo = tmp_path / "repo"
    shutil.copytree(template, repo, symlinks=True)
    check_tree(tmp_path)

    hide(repo)

    with pytest.raises(SnapshotError, match=HIDING[hide]):
        check_tree(tmp_path)


def test_a_staged_change_is_kept_by_locking_and_found_by_the_check(
    tmp_path: Path, template: Path
) -> None:
    repo = tmp_path / "repo"
    shutil.copytree(template, repo)
    (repo / "code.py").write_text("def fixed_fn(): ...\n")
    git(repo, "add", "code.py")

    lock_repository(repo)

    assert git(repo, "status", "--porcelain") == "M  code.py\n"
    with pytest.raises(SnapshotError, match="in no declared history"):
        check_repository(repo)


def test_an_index_forgets_the_machine_and_keeps_what_is_staged(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        repo = young(tmp_path / name)
        (repo / "a name\nthat is långer than others.py").write_text("x\n")
        git(repo, "add", "-A")
        git(repo, "add", "-N", ".")
        before = git(repo, "ls-files", "--stage", "-z")

        forget_machine(tmp_path / name)

        assert git(repo, "ls-files", "--stage", "-z") == before
        texts.append((repo / ".git/index").read_bytes())
        git(repo, "fsck")
        assert git(repo, "status", "--porcelain").startswith("A ")
        assert git(repo, "diff", "--stat") == ""

    assert texts[0] == texts[1]


def test_a_repository_cannot_make_the_check_run_something(
    tmp_path: Path, template: Path
) -> None:
    repo = tmp_path / "repo"
    shutil.copytree(template, repo)
    mark = tmp_path / "ran"
    git(repo, "config", "core.fsmonitor", f"touch {mark}")
    git(repo, "config", "core.sshCommand", f"touch {mark}")

    with pytest.raises(SnapshotError, match=r"setting core\.fsmonitor"):
        check_repository(repo)

    assert not mark.exists()
