"""Ingest: the declared artifacts, and nothing else, become a folder of plain files.

No link survives that leaves its artifact, nothing but regular files and folders is
taken, owners and setuid bits stay behind, and every size is capped.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rlvr_envs.records import Check, Evidence, TamperCode
from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers import globs, opening

MIB = 1 << 20

SENSITIVE = (
    "/proc",
    "/sys",
    "/tests",
    "/verifier",
    "/submission",
    "/solution",
    "/logs",
)
"""Where no honest link leads: kernel views, and where judges keep their files."""


SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/opt",
    "/etc/alternatives",
    "/dev",
)
"""Where honest links lead that a virtual environment, say, brings along."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Most that a submission may hold; its paths get longer where they are judged."""

    file_bytes: int = 64 * MIB
    total_bytes: int = 128 * MIB
    files: int = 20_000
    depth: int = 48
    path_bytes: int = 3072


@dataclass(slots=True)
class Ingested:
    """What was refused on the way; what was taken stands in the target folder.

    Attributes:
        suspicions: Evidence that counts only beside a failed check.
    """

    checks: list[Check] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    suspicions: list[Evidence] = field(default_factory=list)
    bytes: int = 0
    files: int = 0

    def refuse(self, path: str, reason: str) -> None:
        """Record a failed check."""
        self.checks.append(Check(f"ingest {shown(path)}", passed=False, reason=reason))

    def flag(self, code: TamperCode, path: str, detail: str) -> None:
        """Record evidence."""
        self.evidence.append(Evidence(code, shown(path), detail))


def shown(path: str) -> str:
    """Return an agent's path as printable text."""
    return ascii(path)[1:-1] if not path.isprintable() else path


def _of_the_system(target: str) -> bool:
    return any(globs.beneath(target, place) for place in SYSTEM)


class TooMuch(Exception):
    """A cap was passed."""


def ingest(
    frozen: FrozenState,
    artifacts: Collection[str],
    target: Path,
    *,
    wanted: Collection[str] = (),
    caps: Caps | None = None,
) -> Ingested:
    """Copy the declared artifacts to a folder, at their own absolute paths.

    Args:
        frozen: Never changes any more.
        artifacts: Absolute files or folders; one that is missing is left out.
        target: Empty folder of the judge's.
        wanted: Paths that checks read; a special file at one is tampering.
        caps: Most that is taken.
    """
    intake = _Intake(frozen, target, {*artifacts, *wanted}, caps or Caps())
    for artifact in artifacts:
        try:
            intake.take(artifact)
        except TooMuch as error:
            intake.found.refuse(artifact, str(error))
    return intake.found


class _Intake:
    def __init__(
        self, frozen: FrozenState, target: Path, wanted: set[str], caps: Caps
    ) -> None:
        self.found = Ingested()
        self._root = frozen.root
        self._id_base = frozen.id_base
        self._changed = {c.path for c in frozen.changes}
        self._target = target
        self._wanted = wanted
        self._caps = caps

    def take(self, artifact: str) -> None:
        """Take one artifact."""
        parent = str(PurePosixPath(artifact).parent)
        fd = self._locate(artifact, artifact, parent)
        if fd is None:
            return
        try:
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                self._folder(opening.real_path(self._root, fd), artifact, artifact)
            else:
                self._file(fd, artifact)
        finally:
            os.close(fd)

    def _locate(self, path: str, artifact: str, within: str) -> int | None:
        """Return a descriptor of what a path leads to, if that lies within a folder."""
        target = self._link_target(path)
        escapes = target is not None and not globs.beneath(target, within)
        try:
            fd = opening.locate(self._root, path)
        except OSError as error:
            if escapes or error.errno not in opening.MISSING:
                self._escaped(path, artifact, target or path)
            return None
        real = self._real(fd)
        if escapes or not globs.beneath(real, within):
            self._escaped(path, artifact, target or real)
            os.close(fd)
            return None
        return fd

    def _real(self, fd: int) -> str:
        try:
            return opening.real_path(self._root, fd)
        except opening.Refused:
            return ""

    def _link_target(self, path: str) -> str | None:
        host = self._root / path.lstrip("/")
        if path not in self._changed or not host.is_symlink():
            return None
        joined = PurePosixPath(path).parent / host.readlink()
        return os.path.normpath(str(joined))

    def _escaped(self, path: str, artifact: str, target: str) -> None:
        """Leave a link out; it is tampering where an artifact or a secret is meant."""
        declared = path == artifact or path in self._wanted
        secret = any(globs.beneath(target, place) for place in SENSITIVE)
        detail = f"a link to {shown(target)} stands there"
        if declared or (secret and path in self._changed):
            self.found.flag(TamperCode.LINK_ESCAPE, path, detail)
            self.found.refuse(path, detail)
        elif path in self._changed and not _of_the_system(target):
            proof = Evidence(TamperCode.LINK_ESCAPE, shown(path), detail)
            self.found.suspicions.append(proof)

    def _special(self, path: str, word: str) -> None:
        """Leave a special file out; where an artifact is meant, it hinders grading."""
        if path in self._wanted:
            for code in (TamperCode.LINK_ESCAPE, TamperCode.HARNESS_TAMPER):
                self.found.flag(code, path, f"a {word} stands where a file is read")
            self.found.refuse(path, f"a {word} stands there")

    def _folder(self, real: str, path: str, artifact: str) -> None:
        if path.count("/") - artifact.count("/") > self._caps.depth:
            raise TooMuch(f"folders are nested deeper than {self._caps.depth}")
        self._make(path)
        host = self._root / real.lstrip("/")
        for entry in sorted(os.scandir(host), key=lambda item: item.name):
            self._count(0)
            inner, deeper = f"{path}/{entry.name}", f"{real}/{entry.name}"
            if len(os.fsencode(max(inner, deeper, key=len))) > self._caps.path_bytes:
                raise TooMuch(f"a path has more than {self._caps.path_bytes} bytes")
            if entry.is_symlink():
                self._link(inner, artifact)
            elif entry.is_dir(follow_symlinks=False):
                self._folder(deeper, inner, artifact)
            else:
                self._plain(inner, deeper)

    def _plain(self, path: str, real: str) -> None:
        fd = os.open(self._root / real.lstrip("/"), os.O_PATH | os.O_NOFOLLOW)
        try:
            self._file(fd, path)
        finally:
            os.close(fd)

    def _link(self, path: str, artifact: str) -> None:
        fd = self._locate(path, artifact, artifact)
        if fd is None:
            return
        try:
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                self._folder_link(path, opening.real_path(self._root, fd))
            else:
                self._file(fd, path)
        finally:
            os.close(fd)

    def _folder_link(self, path: str, real: str) -> None:
        parent = str(PurePosixPath(path).parent)
        self._place(path).symlink_to(os.path.relpath(real, parent))

    def _file(self, fd: int, path: str) -> None:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            self._special(path, opening.kind_of(info.st_mode))
            return
        self._hard_link(info, path)
        self._count(min(info.st_size, self._caps.file_bytes))
        try:
            data = opening.read_located(fd, path, limit_bytes=self._caps.file_bytes)
        except opening.Refused as error:
            self.found.refuse(path, str(error))
            return
        place = self._place(path)
        place.write_bytes(data)
        place.chmod(0o755 if info.st_mode & 0o111 else 0o644)

    def _hard_link(self, info: os.stat_result, path: str) -> None:
        """Flag an artifact that is another user's file under a second name."""
        foreign = info.st_uid == self._id_base and path in self._changed
        if path in self._wanted and info.st_nlink > 1 and foreign:
            detail = "it is a hard link to another user's file"
            self.found.flag(TamperCode.LINK_ESCAPE, path, detail)
            self.found.refuse(path, detail)

    def _count(self, size: int) -> None:
        self.found.files += 1
        self.found.bytes += size
        if self.found.files > self._caps.files:
            raise TooMuch(f"it has more than {self._caps.files} entries")
        if self.found.bytes > self._caps.total_bytes:
            raise TooMuch(f"it has more than {self._caps.total_bytes} bytes")

    def _make(self, path: str) -> None:
        (self._target / path.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def _place(self, path: str) -> Path:
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in path):
            raise TooMuch(f"a name holds control characters: {shown(path)}")
        place = self._target / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        return place
