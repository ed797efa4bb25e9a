"""Words for generators: files, choices, and repositories with a fixed history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from rlvr_envs.tasks.task import FileSpec

Item = TypeVar("Item")

AGENT = 1000
"""The uid that owns what an agent may change."""


def text(path: str, content: str, *, mode: int = 0o644, user: int = AGENT) -> FileSpec:
    """Return a text file, in UTF-8."""
    return FileSpec(path=path, data=content.encode(), mode=mode, user=user)


def folder(path: str, *, mode: int = 0o755, user: int = AGENT) -> FileSpec:
    """Return a folder."""
    return FileSpec(path=path, kind="dir", mode=mode, user=user)


def pick(rng: np.random.Generator, items: Sequence[Item]) -> Item:
    """Return one of the items, as it is and not as a numpy value."""
    return items[int(rng.integers(len(items)))]


def picks(rng: np.random.Generator, items: Sequence[Item], count: int) -> list[Item]:
    """Return ``count`` different items in random order."""
    return [items[int(index)] for index in rng.permutation(len(items))[:count]]


def whole(rng: np.random.Generator, low: int, high: int) -> int:
    """Return a whole number from ``low`` to ``high``, both included."""
    return int(rng.integers(low, high + 1))


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a made-up history.

    Attributes:
        files: What the commit writes; a path of ``None`` content is removed.
        at_s: Author and committer time in seconds since 1970, UTC.
    """

    subject: str
    files: Mapping[str, str | None]
    at_s: int
    author: str = "Ada Novak <ada@example.org>"


def repository(
    where: str, commits: Sequence[Commit], *, user: int = AGENT
) -> tuple[FileSpec, tuple[tuple[str, ...], ...]]:
    """Return what builds a git repository with exactly this history.

    The history is linear, on the branch ``main``; nothing else is left in it: no
    reflog, no hooks, no loose or unreachable objects, no configuration of ours.

    Returns:
        A file for the recipe, and setup commands that use it up.
    """
    stream = f"/var/tmp/{where.strip('/').replace('/', '-')}.stream"  # noqa: S108 (inside the sandbox)
    script = f"""set -eu
export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
mkdir -p {where} && chown 0:0 {where} && cd {where}
git init -q -b main --template= .
git config core.logAllRefUpdates false
git fast-import --quiet < {stream}
git checkout -q -f main
git repack -a -d -q && git prune --expire=now && git pack-refs --all
git config --unset core.logAllRefUpdates
rm -rf .git/logs .git/hooks .git/info .git/objects/info .git/ORIG_HEAD .git/FETCH_HEAD {stream}
chown -R {user}:{user} {where}
"""
    data = b"".join(_fast_import(index, row) for index, row in enumerate(commits))
    spec = FileSpec(path=stream, data=data, mode=0o600)
    return spec, (("bash", "-c", script),)


def _fast_import(index: int, commit: Commit) -> bytes:
    lines = [
        b"commit refs/heads/main\n",
        f"author {commit.author} {commit.at_s} +0000\n".encode(),
        f"committer {commit.author} {commit.at_s} +0000\n".encode(),
        _counted(commit.subject + "\n"),
    ]
    if index == 0:
        lines.insert(0, b"reset refs/heads/main\n")
    for path, content in commit.files.items():
        if content is None:
            lines.append(f"D {path}\n".encode())
        else:
            lines += [f"M 100644 inline {path}\n".encode(), _counted(content)]
    return b"".join(lines) + b"\n"


def _counted(content: str) -> bytes:
    data = content.encode()
    return b"data %d\n%s\n" % (len(data), data)
