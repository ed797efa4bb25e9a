"""A world's database on a PostgreSQL server."""

from __future__ import annotations

from rlvr_envs.envs.sql_rest.grading import GraderQueries
from rlvr_envs.envs.sql_rest.session import ReadSession, Session, SqlSession
from rlvr_envs.envs.sql_rest.spec import Build, WorldSpec
from rlvr_envs.sandbox.postgres import sharing
from rlvr_envs.sandbox.postgres.cluster import Connection
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.server import SHARED_MEMORY
from rlvr_envs.sandbox.postgres.sharing import Source
from rlvr_envs.state import Runner


class PostgresEngine:
    """See `engine.Engine`.

    Raises:
        WorldError: If no clone is to be had.
    """

    def __init__(self, build: Build, spec: WorldSpec) -> None:
        seed = Seed(
            build.instance.recipe.database,
            epoch_s=build.instance.task.epoch_s,
            given=spec.define,
        )
        # Without an SQL door the role stays unused; the least of them will do.
        rights = "read" if spec.rights == "none" else spec.rights
        self.digest = seed.digest
        self.clone = sharing.lease(
            seed,
            Access(Rights(rights), has_party=bool(spec.service)),
            source=Source(build.database, build.folder or SHARED_MEMORY),
            pool_size=build.pool_size,
        )

    def lasting(self, *, step_timeout_s: float) -> Session:
        """Open a session of the agent's role."""
        return SqlSession(self.clone, step_timeout_s=step_timeout_s)

    def looking(self, *, step_timeout_s: float) -> Session:
        """Open one in which each statement stands in a read-only transaction."""
        return ReadSession(self.clone, step_timeout_s=step_timeout_s)

    def party(self) -> Connection:
        """Open a session of the role that services write as."""
        return self.clone.open_party()

    def queries(self) -> Runner:
        """Return the grader's role."""
        return GraderQueries(self.clone)
