"""Things that a process makes once, and that a forked child makes anew."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Closes(Protocol):
    """Something that its owner closes."""

    def close(self) -> None:
        """Remove every trace; idempotent."""


Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing", bound=Closes)


class PerProcess(Generic[Key, Thing]):
    """One thing for each key, made when it is first asked for.

    What a parent made, a forked child never touches; it keeps it, so that no
    finalizer runs there either.

    Args:
        make: Makes the thing of a key.
        alive: Whether a thing can still be used; one that cannot is closed and
            replaced.
    """

    def __init__(
        self,
        make: Callable[[Key], Thing],
        *,
        alive: Callable[[Thing], bool] = lambda _: True,
    ) -> None:
        self._make = make
        self._alive = alive
        self._things: dict[tuple[int, Key], Thing] = {}
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._after_fork)

    def get(self, key: Key) -> Thing:
        """Return this process's; what making it raises is raised."""
        mine = (os.getpid(), key)
        with self._lock:
            found = self._things.get(mine)
            if found is None or not self._alive(found):
                if found is not None:
                    found.close()
                found = self._things[mine] = self._make(key)
            return found

    def mine(self) -> list[Thing]:
        """Return all of this process's."""
        with self._lock:
            pid = os.getpid()
            return [thing for (owner, _), thing in self._things.items() if owner == pid]

    def close(self) -> None:
        """Close this process's; the next call makes others."""
        with self._lock:
            for owner, key in list(self._things):
                if owner == os.getpid():
                    self._things.pop((owner, key)).close()

    def _after_fork(self) -> None:
        """A lock that another thread held at the fork would stay locked for ever."""
        self._lock = threading.Lock()
