"""What a git repository's own folder holds, read without trusting any of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.snapshots.tree import Entry, walk

GIT_TIMEOUT_S = 300

KEPT = frozenset(
    [
        "HEAD",
        "config",
        "description",
        "index",
        "packed-refs",
        "refs",
        "objects",
        "info",
        "hooks",
        "branches",
    ]
)
"""What a locked repository's own folder may hold; never a reflog or a stray head."""

EMPTY = ("hooks", "branches", "objects/info")
PACK_NAMES = re.compile(r"pack-[0-9a-f]{40}\.(pack|idx|rev)")
SETTINGS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase"
    r"|autocrlf|eol|safecrlf|symlinks|precomposeunicode)"
    r"|user\.(name|email)|init\.defaultbranch|pull\.(rebase|ff)|merge\.conflictstyle"
    r"|receive\.deny[a-z]+"
)
"""Settings that lead nowhere; remotes, includes, hooks and the like do."""


def findings(folder: Path, refs: Sequence[str] = ()) -> list[str]:
    """Return what is wrong with a repository's own folder, in words.

    Its objects are read by the host's git with a configuration of ours: nothing in
    the repository can make a command run.

    Raises:
        MissingRequirement: If the host has no git.
    """
    wrong = list(_wrong_files(folder))
    if wrong:
        return wrong
    if not (folder / "HEAD").is_file():
        return ["has no HEAD: it lies only partly in this tree"]
    need_git()
    with tempfile.TemporaryDirectory() as scratch:
        repository = _Reading(folder, Path(scratch))
        try:
            return [
                *repository.wrong_settings(refs),
                *repository.wrong_refs(refs),
                *repository.wrong_objects(),
            ]
        except (_Broken, UnicodeDecodeError) as error:
            return [f"git cannot read it: {error}"]


def _wrong_files(folder: Path) -> Iterator[str]:
    for entry in walk(folder):
        top = entry.path.partition("/")[0]
        if entry.kind == "device" and entry.info.st_rdev == 0:
            continue  # a layer's mark that something is gone
        if top not in KEPT:
            if entry.path == top:
                yield f"{entry.path} is there"
        elif entry.kind not in ("file", "dir"):
            yield f"{entry.path} is a {entry.kind}"
        elif any(entry.path.startswith(f"{name}/") for name in EMPTY) or (
            entry.path.startswith("info/") and entry.path != "info/exclude"
        ):
            yield f"{entry.path} is there"
        elif entry.path.startswith("objects/") and not _is_packed(entry):
            yield f"{entry.path} is not packed"


def _is_packed(entry: Entry) -> bool:
    if entry.kind == "dir":
        return entry.path in ("objects/info", "objects/pack")
    folder, _, name = entry.path.rpartition("/")
    return folder == "objects/pack" and PACK_NAMES.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class _Reading:
    """A repository read by git with none of its own settings in force."""

    folder: Path
    scratch: Path

    def __post_init__(self) -> None:
        for name in ("objects", "refs"):
            (self.scratch / name).mkdir()
        (self.scratch / "HEAD").write_text("ref: refs/heads/none\n")

    def git(self, *argv: str, stdin: bytes = b"") -> bytes:
        """Run git on the objects and the index; raises `_Broken` if it fails."""
        settings = {
            "PATH": os.defpath,
            "GIT_DIR": str(self.scratch),
            "GIT_OBJECT_DIRECTORY": str(self.folder / "objects"),
            "GIT_INDEX_FILE": str(self.folder / "index"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "LC_ALL": "C",
        }
        answer = run(["git", *argv], env=settings, stdin=stdin)
        if answer.returncode:
            raise _Broken(answer.stderr.decode(errors="replace").strip())
        return answer.stdout

    def wrong_settings(self, refs: Sequence[str]) -> Iterator[str]:
        """Yield each setting that could lead to something else."""
        remotes = {ref.split("/")[2] for ref in refs if ref.startswith("refs/remotes/")}
        config = self.folder / "config"
        if not config.is_file():
            return
        listed = self.git(
            "config", "--file", str(config), "--list", "--name-only", "-z"
        )
        for key in filter(None, listed.decode(errors="replace").split("\0")):
            section, _, rest = key.partition(".")
            if section == "remote" and rest.rpartition(".")[0] in remotes:
                continue
            if not SETTINGS.fullmatch(key):
                yield f"the setting {key} is there"

    def refs(self) -> Mapping[str, str]:
        """Return the content of every ref by its full name, loose over packed."""
        found = {}
        packed = self.folder / "packed-refs"
        for line in packed.read_text().splitlines() if packed.is_file() else ():
            if line and line[0] not in "#^":
                value, _, name = line.partition(" ")
                found[name] = value
        for entry in walk(self.folder / "refs"):
            if entry.kind == "file":
                path = self.folder / "refs" / entry.path
                found[f"refs/{entry.path}"] = path.read_text().strip()
        return found

    def head(self) -> str:
        """Return what ``HEAD`` holds."""
        return (self.folder / "HEAD").read_text().strip()

    def wrong_refs(self, refs: Sequence[str]) -> Iterator[str]:
        """Yield each ref that is neither declared nor the branch of ``HEAD``."""
        allowed = {*refs, self.head().removeprefix("ref: ")}
        for name in sorted(self.refs()):
            if name not in allowed:
                yield f"the ref {name} is not declared"

    def wrong_objects(self) -> Iterator[str]:
        """Yield what of the objects cannot be reached, or is damaged."""
        tips = [*self.refs().values(), self.head()]
        reached = self._reached([tip for tip in tips if not tip.startswith("ref: ")])
        packed, staged = self._packed(), self._staged()
        for number in sorted(packed - reached):
            yield f"the object {number} is in no declared history"
        for number in sorted(staged - reached - packed):
            yield f"the staged object {number} is missing"

    def _reached(self, tips: Sequence[str]) -> set[str]:
        if not tips:
            return set()
        listed = self.git(
            "rev-list", "--objects", "--stdin", stdin="\n".join(tips).encode() + b"\n"
        )
        objects = {line.split(b" ", 1)[0].decode() for line in listed.splitlines()}
        return objects | set(tips)

    def _packed(self) -> set[str]:
        for pack in (self.folder / "objects/pack").glob("*.idx"):
            self.git("verify-pack", str(pack))
        listed = self.git(
            "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"
        )
        return set(listed.decode().split())

    def _staged(self) -> set[str]:
        if not (self.folder / "index").is_file():
            return set()
        rows = self.git("ls-files", "--stage", "-z").decode(errors="replace")
        words = [row.split(" ", 2) for row in rows.split("\0") if row]
        return {number for mode, number, _ in words if mode != "160000"}


class _Broken(Exception):
    """Git refused the repository."""


def need_git() -> None:
    """Raise `MissingRequirement` if the host has no git."""
    if shutil.which("git") is None:
        raise MissingRequirement(
            "git is not installed, so repositories cannot be checked.",
            remedy="apt-get install git.",
        )


def run(
    argv: Sequence[str], *, env: Mapping[str, str], stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end; its output comes back whole."""
    return subprocess.run(
        argv,
        input=stdin,
        capture_output=True,
        env=dict(env),
        timeout=GIT_TIMEOUT_S,
        check=False,
    )
