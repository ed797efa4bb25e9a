"""The files of an instance, laid into a folder that becomes a layer."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlvr_envs.errors import TaskError
from rlvr_envs.snapshots.beneath import resolve_over
from rlvr_envs.tasks.task import FileSpec

NANOSECONDS = 1_000_000_000


def lay(
    files: Sequence[FileSpec], root: Path, base: Path, *, epoch_s: int, task: Path
) -> None:
    """Lay files over a base image, as a layer of their own.

    A folder of the base that the layer has to repeat keeps its owner, mode and
    time. A link in the way of a path is followed, beneath the root. A folder may be
    searched by whoever may read it.

    Args:
        files: In order; a later one replaces an earlier one.
        root: Empty folder.
        base: Tree of the image.
        epoch_s: Modification time of what declares none.
        task: The task's file, for error messages.

    Raises:
        TaskError: If a path is not absolute and plain, or lies beneath a file.
    """
    laying = _Laying(root, base, epoch_s, task)
    laying.repeat("")
    for spec in files:
        laying.put(spec)
    laying.finish()


@dataclass(slots=True)
class _Laying:
    root: Path
    base: Path
    epoch_s: int
    task: Path
    times: dict[str, int] = field(default_factory=dict)

    def put(self, spec: FileSpec) -> None:
        """Lay one file, its parents first."""
        self._check(spec)
        path = resolve_over([self.root, self.base], spec.path)
        self._parents(path, spec)
        target = self.root / path
        _MAKERS[spec.kind](target, spec.data)
        if spec.kind != "dir":
            self._forget(f"{path}/")
        os.chown(target, spec.user, spec.user, follow_symlinks=False)
        if spec.kind != "link":
            target.chmod(_mode(spec))
        moment = self.epoch_s if spec.mtime_s is None else spec.mtime_s
        self.times[path] = moment * NANOSECONDS

    def repeat(self, path: str) -> None:
        """Give a folder of the layer what the base's folder of that name has."""
        info = (self.base / path).stat(follow_symlinks=False)
        target = self.root / path
        target.mkdir(exist_ok=True)
        os.chown(target, info.st_uid, info.st_gid)
        target.chmod(stat.S_IMODE(info.st_mode))
        self.times[path] = info.st_mtime_ns

    def finish(self) -> None:
        """Set the times, which filling a folder disturbs."""
        for path, moment in self.times.items():
            os.utime(self.root / path, ns=(moment, moment), follow_symlinks=False)

    def _check(self, spec: FileSpec) -> None:
        parts = spec.path.split("/")
        plain = spec.path.startswith("/") and "\0" not in spec.path
        if not plain or ".." in parts or not spec.path.strip("/"):
            raise self._error(f"{spec.path!r} is no absolute path of a file")
        if spec.kind not in _MAKERS:
            raise self._error(f"{spec.path!r} has the unknown kind {spec.kind!r}")

    def _parents(self, path: str, spec: FileSpec) -> None:
        parts = path.split("/")[:-1]
        for length in range(1, len(parts) + 1):
            name = "/".join(parts[:length])
            if (self.root / name).is_dir():
                continue
            if (self.base / name).is_dir():
                self.repeat(name)
            elif os.path.lexists(self.root / name) or os.path.lexists(self.base / name):
                raise self._error(f"{spec.path!r} lies beneath the file {'/' + name!r}")
            else:
                target = self.root / name
                target.mkdir(mode=0o755)
                os.chown(target, spec.user, spec.user)
                self.times[name] = self.epoch_s * NANOSECONDS

    def _forget(self, prefix: str) -> None:
        for path in [path for path in self.times if path.startswith(prefix)]:
            del self.times[path]

    def _error(self, message: str) -> TaskError:
        return TaskError(
            f"{message}.", file=self.task, remedy="mend the recipe's files."
        )


def _mode(spec: FileSpec) -> int:
    search = (spec.mode & 0o444) >> 2 if spec.kind == "dir" else 0
    return spec.mode | search


def _clear(target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def _file(target: Path, data: bytes) -> None:
    _clear(target)
    target.write_bytes(data)


def _link(target: Path, data: bytes) -> None:
    _clear(target)
    target.symlink_to(os.fsdecode(data))


def _dir(target: Path, data: bytes) -> None:  # noqa: ARG001 - as for the others
    if not target.is_dir() or target.is_symlink():
        _clear(target)
        target.mkdir()


_MAKERS: dict[str, Callable[[Path, bytes], None]] = {
    "file": _file,
    "link": _link,
    "dir": _dir,
}
