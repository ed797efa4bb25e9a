"""Who else writes in a task without a service: between the agent's statements."""

from __future__ import annotations

from collections.abc import Callable

from rlvr_envs.envs.sql_rest.services.rivals import Rivals
from rlvr_envs.sandbox.postgres.cluster import Connection

_LOCK = "SET lock_timeout = '50ms'"


class Others:
    """What other parties write, each before the agent's statement of its time.

    Where a service is, they act at its door and not here.

    Args:
        rivals: What they write, and when.
        enter: Opens a session of theirs, when it is needed first.
    """

    def __init__(self, rivals: Rivals, enter: Callable[[], Connection]) -> None:
        self._rivals = rivals
        self._enter = enter
        self._connection: Connection | None = None

    def act(self, turn: int, *, writes: bool) -> None:
        """Let those write whose time has come; who meets a lock comes again.

        Args:
            turn: Of the statement that comes.
            writes: Whether it goes through a door that can write.

        Raises:
            SandboxError: If the server is gone.
        """
        if self._connection is None:
            self._connection = self._enter()
            # The agent waits while they do: a lock it holds is seen soon enough.
            self._connection.execute(_LOCK)
        self._rivals.act(self._connection, turn, writes=writes)

    def close(self) -> None:
        """End their session; idempotent."""
        if self._connection is not None:
            self._connection.close()
