"""The end of what episodes leave, off everybody's path."""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable

import psycopg

from rlvr_envs.errors import SandboxError

_AGAIN_S = 2.0


class Dropper:
    """A thread that removes things in turn, off everybody's path.

    Args:
        drop: Removes one thing by name; what it raises is told by `join`.
        again: Tries what could not be removed, every few seconds while it says that
            something is left.
    """

    def __init__(
        self, drop: Callable[[str], None], *, again: Callable[[], bool]
    ) -> None:
        self._drop = drop
        self._again = again
        self._left = False
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._failure: Exception | None = None
        self._thread = threading.Thread(
            target=self._work, name="postgres-dropper", daemon=True
        )
        self._thread.start()

    def put(self, name: str) -> None:
        """Hand over one thing."""
        self._queue.put(name)

    def join(self) -> None:
        """Wait until all that was handed over is gone.

        Raises:
            SandboxError: If something is not; told once.
        """
        self._queue.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise SandboxError(f"A database was not dropped: {failure}") from failure

    def close(self) -> None:
        """Work off what is left and end; idempotent."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            try:
                name = self._queue.get(timeout=_AGAIN_S if self._left else None)
            except queue.Empty:
                self._act(lambda: None)
                continue
            try:
                if name is None:
                    return
                self._act(functools.partial(self._drop, name))
            finally:
                self._queue.task_done()

    def _act(self, act: Callable[[], None]) -> None:
        try:
            act()
            self._left = self._again()
        except (psycopg.Error, OSError) as error:
            self._failure = error
