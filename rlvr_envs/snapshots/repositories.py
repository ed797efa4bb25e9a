"""Git repositories locked to a commit: the history that is declared, nothing else.

`lock_commands` brings a repository into that state; `check_repository` and
`check_tree` refuse one that is not in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rlvr_envs.errors import SnapshotError
from rlvr_envs.snapshots.git_folder import findings, need_git, run
from rlvr_envs.snapshots.git_index import forget_stats
from rlvr_envs.snapshots.tree import Entry, opened, walk

SCRIPT = Path(__file__).with_name("lock_repository.sh")
STRAYS = {
    b"# v2 git bundle": "a git bundle",
    b"# v3 git bundle": "a git bundle",
    b"PACK\0\0\0\x02": "a git pack",
    b"PACK\0\0\0\x03": "a git pack",
    b"\xfftOc": "the index of a git pack",
}

REMEDY = (
    "add `*lock_commands(PATH)` to the end of the recipe's setup (or call "
    "`lock_repository` on the folder), and declare the refs that shall stay."
)


def lock_commands(
    path: str, *, refs: Sequence[str] = (), user: int = 1000
) -> tuple[tuple[str, ...], ...]:
    """Return the setup commands that lock a repository inside a sandbox.

    They need the image's git and root. The branch that ``HEAD`` names is kept.

    Args:
        path: Absolute, of the work tree or of a bare repository.
        refs: Full names of further refs to keep, such as ``refs/heads/feature``.
        user: Who owns the repository's own folder afterwards.
    """
    return (("sh", "-c", SCRIPT.read_text(), "lock", path, str(user), *refs),)


def lock_repository(path: Path, *, refs: Sequence[str] = ()) -> None:
    """Lock a repository that lies in a folder of the host.

    Args:
        path: Of the work tree or of a bare repository; owners stay as they are.
        refs: As for `lock_commands`.

    Raises:
        MissingRequirement: If the host has no git.
        SnapshotError: If git fails on it.
    """
    need_git()
    argv = ["sh", "-c", SCRIPT.read_text(), "lock", str(path), "", *refs]
    answer = run(argv, env={"PATH": os.defpath})
    if answer.returncode:
        said = answer.stderr.decode(errors="replace")
        raise SnapshotError(f"The repository {path} cannot be locked: {said}")


def check_tree(root: Path, declared: Mapping[str, Sequence[str]] | None = None) -> None:
    """Refuse a tree in which a repository, or a piece of one, is not locked.

    Args:
        root: Folder of an image or of a layer.
        declared: Further refs by the absolute path of a repository inside.

    Raises:
        SnapshotError: With everything that is wrong, and the remedy.
    """
    wrong: list[str] = []
    for path in _repositories(root, wrong):
        name = "/" + str(path.relative_to(root)).removesuffix(".git").rstrip("/")
        refs = (declared or {}).get(name, ())
        wrong += [f"{name}: {finding}" for finding in findings(path, refs)]
    if wrong:
        raise SnapshotError(
            "A git repository is not locked to its commit:\n  "
            + "\n  ".join(wrong)
            + "\n",
            remedy=REMEDY,
        )


def forget_machine(root: Path) -> None:
    """Take out of every repository's index what it remembers of this machine."""
    for folder in _repositories(root, []):
        index = folder / "index"
        if index.is_file() and not index.is_symlink():
            forget_stats(index)


def check_repository(path: Path, *, refs: Sequence[str] = ()) -> None:
    """Refuse one repository that is not locked; `check_tree` says what that means.

    Args:
        path: Of the work tree or of the repository's own folder.
        refs: Full names of the refs that it may have beside its own branch.
    """
    folder = path / ".git" if os.path.lexists(path / ".git") else path
    wrong = findings(folder, refs)
    if wrong:
        listed = "\n  ".join(wrong)
        raise SnapshotError(
            f"The git repository {path} is not locked to its commit:\n  {listed}\n",
            remedy=REMEDY,
        )


def _repositories(root: Path, wrong: list[str]) -> Iterator[Path]:
    """Yield the own folder of each repository; note pieces that lie about."""
    inside = ""
    for entry in walk(root):
        if inside and entry.path.startswith(inside):
            continue
        if entry.name == ".git" and entry.kind in ("file", "link"):
            wrong.append(f"/{entry.path}: points to a repository elsewhere")
        elif entry.kind == "dir" and (entry.name == ".git" or _is_bare(entry)):
            inside = f"{entry.path}/"
            yield root / entry.path
        elif entry.kind == "file" and (stray := _stray(entry)):
            wrong.append(f"/{entry.path}: {stray} outside a repository")


def _is_bare(entry: Entry) -> bool:
    parts = ("HEAD", "objects", "refs")
    try:
        for part in parts:
            os.stat(f"{entry.name}/{part}", dir_fd=entry.folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _stray(entry: Entry) -> str:
    if entry.info.st_size < 32:
        return ""
    with opened(entry) as descriptor:
        head = os.read(descriptor, 16)
    return next((what for mark, what in STRAYS.items() if head.startswith(mark)), "")
