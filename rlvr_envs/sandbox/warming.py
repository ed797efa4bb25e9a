"""Worlds made ahead of their episodes, so that a reset only takes one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from rlvr_envs.errors import CallerError, SandboxError, WorldError
from rlvr_envs.sandbox.perprocess import Closes

LEASE_S = 120.0


Warm = TypeVar("Warm", bound=Closes)


class WarmPool(Generic[Warm]):
    """A few things of one kind that stand ready, refilled by a thread.

    The thread starts at the first lease. One is made at a time, and a burst is
    served in the order it came.

    Args:
        make: Makes one; what it raises of `WorldError` is told at the next lease.
        size: How many stand ready once as many were leased, at least 1.
        what: What one is called in errors, such as ``database``.

    Raises:
        ValueError: If the size is below 1.
    """

    def __init__(self, make: Callable[[], Warm], *, size: int, what: str) -> None:
        if size < 1:
            raise ValueError(f"A pool holds at least 1 {what}, not {size}.")
        self._make = make
        self._size = size
        self._what = what
        self._changed = threading.Condition()
        self._ready: deque[Warm] = deque()
        self._waiting = 0
        self._leased = 0
        self._failure: WorldError | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def lease(self, *, timeout_s: float = LEASE_S) -> Warm:
        """Take one; the caller closes it.

        Raises:
            SandboxError: If none could be made, or not in time.
            CallerError: If the pool is closed.
        """
        with self._changed:
            if self._closed:
                raise CallerError("This pool is closed.", remedy="make another one.")
            self._failure = None
            self._start()
            self._waiting += 1
            self._leased += 1
            self._changed.notify_all()
            try:
                self._changed.wait_for(self._has_news, timeout_s)
                return self._take(timeout_s)
            finally:
                self._waiting -= 1
                self._changed.notify_all()

    def rest(self, *, timeout_s: float = LEASE_S) -> None:
        """Wait until all that shall stand ready does; at once if it never leased.

        Raises:
            SandboxError: If it does not in time.
        """
        with self._changed:
            if self._thread is None or self._closed:
                return
            if not self._changed.wait_for(self._is_full, timeout_s):
                raise SandboxError(f"No {self._what} was ready in {timeout_s:g} s.")

    def close(self) -> None:
        """End the thread and close what stands ready; idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        while self._ready:
            self._ready.popleft().close()

    def _has_news(self) -> bool:
        return bool(self._ready) or self._failure is not None or self._closed

    def _is_full(self) -> bool:
        return len(self._ready) >= self._target() or self._failure is not None

    def _target(self) -> int:
        """Return how many shall be ready: a seed that is used once needs no spares."""
        return max(min(self._size, self._leased), self._waiting)

    def _take(self, timeout_s: float) -> Warm:
        if self._ready:
            return self._ready.popleft()
        if self._failure is not None:
            raise SandboxError(f"No {self._what}: {self._failure}") from self._failure
        raise SandboxError(f"No {self._what} was ready within {timeout_s:g} s.")

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._fill, name=f"{self._what}-maker", daemon=True
            )
            self._thread.start()

    def _wants(self) -> bool:
        short = len(self._ready) < self._target()
        return self._closed or (short and self._failure is None)

    def _fill(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._wants)
                if self._closed:
                    return
            self._add()

    def _add(self) -> None:
        try:
            made = self._make()
        except WorldError as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()
        else:
            with self._changed:
                self._ready.append(made)
                self._changed.notify_all()
