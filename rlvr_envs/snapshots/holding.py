"""Who uses a store: a process that does keeps others from pruning it."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rlvr_envs.errors import CallerError
from rlvr_envs.snapshots.locking import lock_file


@dataclass(slots=True)
class _Held:
    """Descriptors that hold stores as used, until the process ends."""

    descriptors: dict[Path, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_HELD = _Held()


def hold(store: Path) -> None:
    """Mark a store as used by this process until it ends; idempotent.

    Waits while another process prunes it.
    """
    if store in _HELD.descriptors:
        return
    with _HELD.lock:
        if store not in _HELD.descriptors:
            descriptor = lock_file(store, "use")
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            _HELD.descriptors[store] = descriptor


@contextmanager
def unused(store: Path) -> Iterator[None]:
    """Keep everybody else from using a store.

    Raises:
        CallerError: If a living process uses it.
    """
    descriptor = lock_file(store, "use")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise CallerError(
            f"The store {store} is in use by a running process.",
            remedy="end the environments that use it, then prune again.",
        ) from None
    finally:
        os.close(descriptor)
