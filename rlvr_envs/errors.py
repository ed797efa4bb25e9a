"""Every error that the package raises, sorted by whose fault it is.

RlvrError
├── WorldError          the episode is void: `infra_error`, never a score
│   ├── SandboxError    the sandbox or its host failed
│   ├── SnapshotError   an image or a layer is missing, damaged or changed
│   └── VerifierError   the judge itself failed
└── CallerError         raised at once, names the remedy
    ├── ResetNeeded     `step` before `reset`, or after the end
    ├── WrongArgument   an argument, an option or a name cannot be used
    ├── WrongType       an argument is of another type
    ├── TaskError       a task folder is wrong; names file and line
    └── MissingRequirement  this machine lacks a binary, a package or a privilege

What the agent does wrong is no exception: it becomes a `ToolResult`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType


class RlvrError(Exception):
    """Root of the tree; carries what to do about it."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(f"{message} Remedy: {remedy}" if remedy else message)
        self.remedy = remedy


class WorldError(RlvrError):
    """The world or the judge broke; the episode carries no learning signal."""


class SandboxError(WorldError):
    """A sandbox could not be started, reached, frozen or removed."""


class SnapshotError(WorldError):
    """An image or a layer is missing, damaged, or not what its digest says."""


class VerifierError(WorldError):
    """The judge failed for a reason that the submission did not cause."""


class CallerError(RlvrError):
    """The program that called us used us wrongly, or the machine lacks something."""


class ResetNeeded(CallerError, RuntimeError):
    """`step` was called without a living episode."""


class MissingRequirement(CallerError, RuntimeError):
    """A binary, a package, a kernel feature or a privilege is not there."""


class WrongArgument(CallerError, ValueError):
    """An argument, an option or a name is not one that can be used."""


class WrongType(CallerError, TypeError):
    """An argument is of another type than it has to be."""


class TaskError(CallerError, ValueError):
    """A task folder breaks the format."""

    def __init__(
        self,
        message: str,
        *,
        file: Path | str,
        line: int = 0,
        remedy: str = "correct what stands there, or leave this task out",
    ) -> None:
        where = f"{file}:{line}" if line else str(file)
        super().__init__(f"{where}: {message}", remedy=remedy)
        self.file = Path(file)
        self.line = line


_FULL = "free some space, or name a place on another file system"
_ELSEWHERE = "name a place that this user may write to"
_FILES = "raise the limit of open files (ulimit -n), or run fewer episodes at once"

_REMEDIES = MappingProxyType(
    {
        errno.ENOSPC: _FULL,
        errno.EDQUOT: _FULL,
        errno.EACCES: f"{_ELSEWHERE}, or be a user who may",
        errno.EPERM: f"{_ELSEWHERE}, or be a user who may",
        errno.EROFS: _ELSEWHERE,
        errno.ENOENT: "name a place that is there, or can be made",
        errno.ENOTDIR: "name a folder; a part of that path is a file",
        errno.EEXIST: "name another place; that one is taken",
        errno.EISDIR: "name a file; that is a folder",
        errno.ENAMETOOLONG: "choose a shorter name",
        errno.EMFILE: _FILES,
        errno.ENFILE: _FILES,
    }
)


_EXHAUSTED = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
"""What a world can break of that whoever runs it can mend."""


def remedy_for(error: OSError) -> str:
    """Return what can be done about what the system refused."""
    return _REMEDIES.get(error.errno or 0, "look at that place and its file system")


@contextmanager
def place(what: str) -> Iterator[None]:
    """Blame the caller for a place of theirs that the system refuses to use.

    Raises:
        WrongArgument: Naming the place, why, and what can be done.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise WrongArgument(
            f"{what} cannot be used: {reason}.", remedy=remedy_for(error)
        ) from error


class boundary:  # noqa: N801 - it reads as a verb: with boundary(...)
    """Turn an unexpected exception into the world's error at a boundary.

    Args:
        kind: What to raise.
        doing: What was being done, as a clause: ``"mounting the final state"``.

    Raises:
        kind: If the block raised anything that is not ours already.
    """

    __slots__ = ("_doing", "_kind")

    def __init__(self, kind: type[WorldError], doing: str) -> None:
        self._kind = kind
        self._doing = doing

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, RlvrError):
            what = f"{type(error).__name__}: {error}"
            text = f"The world broke while {self._doing}: {what}."
            raise self._kind(text, remedy=_of_the_machine(error)) from error


def _of_the_machine(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in _EXHAUSTED:
        return remedy_for(error)
    return ""
