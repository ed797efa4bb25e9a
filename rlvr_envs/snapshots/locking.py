"""Two processes may build at once: one builds, the other waits and finds it done."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlvr_envs.errors import MissingRequirement, SnapshotError

PARTIAL = "partial"
OWN_STORE = "run as root, or choose a store that you own with --store"
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def locked(store: Path, name: str) -> Iterator[None]:
    """Hold the lock of that name in a store; waits for whoever holds it.

    Raises:
        MissingRequirement: If the store cannot be written.
    """
    descriptor = lock_file(store, name)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def lock_file(store: Path, name: str) -> int:
    """Open the lock file of that name in a store; the caller closes it."""
    path = _made(store / "locks") / f"{name}.lock"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextmanager
def partial(store: Path) -> Iterator[Path]:
    """Give an empty folder on the store's file system, gone after the block.

    What is to stay is renamed out of it. A process that is killed leaves its folder
    to `sweep`.

    Raises:
        SnapshotError: If the disk is full.
    """
    folder = Path(tempfile.mkdtemp(dir=_made(store / PARTIAL)))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise full_disk(store) from error
    finally:
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)


def full_disk(store: Path) -> SnapshotError:
    """Return the error for a store whose disk is full."""
    return SnapshotError(
        f"No space is left for the image store {store}.",
        remedy="free some space, run `rlvr images prune`, or choose another store "
        "with --store.",
    )


def sweep(store: Path) -> int:
    """Remove the unfinished folders of processes that are gone; return how many."""
    removed = 0
    folder = store / PARTIAL
    for path in folder.iterdir() if folder.is_dir() else ():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
                removed += 1
        finally:
            os.close(descriptor)
    return removed


def publish(made: Path, target: Path) -> None:
    """Move a finished folder to its place; an equal one that is there wins."""
    _made(target.parent)
    try:
        made.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def write_atomically(path: Path, text: str) -> None:
    """Replace a small file as a whole."""
    _made(path.parent)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    Path(file.name).replace(path)


def _made(folder: Path) -> Path:
    """Return a folder, made if it is missing, that nobody else may enter."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        if error.errno in _FULL:
            raise full_disk(folder.parent) from error
        raise MissingRequirement(
            f"The image store {folder.parent} cannot be written: {error.strerror}.",
            remedy=OWN_STORE,
        ) from error
    return folder
