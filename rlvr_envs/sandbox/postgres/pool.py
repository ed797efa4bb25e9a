"""Clones made ahead of their episodes, so that a reset only takes one."""

from __future__ import annotations

import threading
from collections import deque

from rlvr_envs.errors import CallerError, SandboxError, WorldError
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.roles import Access
from rlvr_envs.sandbox.postgres.templates import Template

LEASE_S = 120.0


class ClonePool:
    """A few warm clones of one template, refilled by a thread.

    The thread starts at the first lease. One clone is made at a time: the server
    serialises them anyway, and a burst is served in the order it came.

    Args:
        template: It outlives the pool.
        access: The agent's role in every clone.
        size: Clones that stand ready, at least 1; each holds a database and two
            idle sessions.

    Raises:
        ValueError: If the size is below 1.
    """

    def __init__(self, template: Template, access: Access, *, size: int = 4) -> None:
        if size < 1:
            raise ValueError(f"A pool holds at least 1 clone, not {size}.")
        self._template = template
        self._access = access
        self._size = size
        self._changed = threading.Condition()
        self._ready: deque[Clone] = deque()
        self._waiting = 0
        self._failure: WorldError | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def lease(self, *, timeout_s: float = LEASE_S) -> Clone:
        """Take a clone; the caller closes it.

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
            self._changed.notify_all()
            try:
                self._changed.wait_for(self._has_news, timeout_s)
                return self._take(timeout_s)
            finally:
                self._waiting -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """End the thread and drop what stands ready; idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        while self._ready:
            self._ready.popleft().close()

    def _has_news(self) -> bool:
        return bool(self._ready) or self._failure is not None or self._closed

    def _take(self, timeout_s: float) -> Clone:
        if self._ready:
            return self._ready.popleft()
        if self._failure is not None:
            raise SandboxError(f"No database: {self._failure}") from self._failure
        raise SandboxError(f"No database was ready within {timeout_s:g} s.")

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._fill, name="postgres-cloner", daemon=True
            )
            self._thread.start()

    def _wants(self) -> bool:
        short = len(self._ready) < max(self._size, self._waiting)
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
            admin = self._template.cluster.filler()
            clone = make_clone(admin, self._template, self._access)
        except WorldError as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()
        else:
            with self._changed:
                self._ready.append(clone)
                self._changed.notify_all()
