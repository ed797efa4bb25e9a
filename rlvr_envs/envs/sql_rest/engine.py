"""What a world needs of a database engine; PostgreSQL and SQLite both give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from rlvr_envs.envs.sql_rest.session import Session
from rlvr_envs.envs.sql_rest.spec import Build, WorldSpec
from rlvr_envs.registration import load
from rlvr_envs.relational import DatabaseDiff, Ledger
from rlvr_envs.sandbox.postgres.cluster import Connection
from rlvr_envs.state import Runner


class Database(Protocol):
    """The database of one episode."""

    @property
    def overruns(self) -> tuple[str, ...]:
        """Which limits of what episodes share the agent went beyond, in words."""

    def set_clock(self, epoch_s: float, *, seed: int | None = None) -> None:
        """Say what time it is for the agent, and what its randomness is."""

    def end_turn(self, turn: int) -> None:
        """Mark that what was committed up to here is of a turn."""

    def look(self) -> DatabaseDiff:
        """Return how what is committed differs from the seed, while it lives."""

    def freeze(self) -> tuple[str, ...]:
        """End the agent's sessions; return what they were in the middle of."""

    def diff(self) -> DatabaseDiff:
        """Return how it differs from the seed, once it is frozen."""

    def ledger(self) -> Ledger:
        """Return what was committed, as far as the engine tells it."""

    def close(self) -> None:
        """Remove every trace; idempotent."""


class Engine(Protocol):
    """A database of one episode, and the ways to speak to it."""

    @property
    def digest(self) -> str:
        """Of what the episode started from."""

    @property
    def clone(self) -> Database:
        """The episode's own copy."""

    def lasting(self, *, step_timeout_s: float) -> Session:
        """Open a session with the rights of the agent."""

    def looking(self, *, step_timeout_s: float) -> Session:
        """Open a session that only looks, whatever its rights."""

    def party(self) -> Connection:
        """Open a session of who else writes here; the caller closes it.

        Raises:
            SandboxError: If the engine lets nobody else in, or the server is gone.
        """

    def queries(self) -> Runner:
        """Return what reads the final database for the verifiers."""


_ENGINES: Mapping[str, str] = {
    "postgres": "rlvr_envs.envs.sql_rest.on_postgres:PostgresEngine",
    "sqlite": "rlvr_envs.envs.sql_rest.on_sqlite:SqliteEngine",
}


def open_engine(build: Build, spec: WorldSpec) -> Engine:
    """Lease a database of the engine that a task names.

    Raises:
        MissingRequirement: If the machine lacks something.
        SnapshotError: If the seed's SQL fails.
        SandboxError: If there is no database to be had.
    """
    make: Callable[[Build, WorldSpec], Engine] = load(_ENGINES[spec.engine])
    return make(build, spec)
