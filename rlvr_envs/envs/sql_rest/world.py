"""The living world of one database episode: a clone, its doors, and what was seen."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rlvr_envs.confinement import ClockRule
from rlvr_envs.envs.sql_rest.changes import changes_of, state_diff
from rlvr_envs.envs.sql_rest.doors import Doors
from rlvr_envs.envs.sql_rest.grading import GraderQueries
from rlvr_envs.envs.sql_rest.spec import Build, WorldSpec
from rlvr_envs.envs.sql_rest.tools import CATEGORIES
from rlvr_envs.errors import SandboxError, boundary
from rlvr_envs.records import Layer, Snapshot, ToolCall, ToolResult
from rlvr_envs.relational import Called, DatabaseFacts
from rlvr_envs.sandbox.base import SealedLayer
from rlvr_envs.sandbox.postgres import sharing
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.server import SHARED_MEMORY
from rlvr_envs.sandbox.postgres.sharing import Source
from rlvr_envs.state import FrozenState, Runner, StateDiff

NOWHERE = Path("/nonexistent")
"""The root of a state that has no files."""


class SqlRestWorld:
    """A database of its own; `envs.base.World` says what each method promises.

    Raises:
        WorldError: If it cannot be built; nothing is left behind then.
    """

    def __init__(self, build: Build) -> None:
        self._build = build
        task = build.instance.task
        self._spec = WorldSpec.of(task)
        rule = build.options.confinement.clock or ClockRule()
        self._clock = rule.starting(task.epoch_s)
        seed = Seed(build.instance.recipe.database)
        self.snapshot = Snapshot((Layer(seed.digest, NOWHERE),))
        self._turn = 0
        self._calls: list[Called] = []
        self._frozen: FrozenState | None = None
        self._closing = ExitStack()
        self._clone = sharing.lease(
            seed,
            self._access(),
            source=Source(build.database, build.folder or SHARED_MEMORY),
            pool_size=build.pool_size,
        )
        self._closing.callback(self._clone.close)
        self._doors = Doors(
            self._clone, self._spec, step_timeout_s=build.budget.step_timeout_s
        )

    def step(
        self, action: Any, *, turn: int, limit_s: float
    ) -> tuple[ToolCall | None, ToolResult]:
        """Run one tool call at its virtual time, and log it."""
        self._turn = turn
        self._doors.begin(limit_s)
        with boundary(SandboxError, "running a tool call"):
            call, result = self._build.dispatcher.dispatch(self._doors, action)
        if call is not None and call.name in CATEGORIES:
            self._calls.append(self._called(call, result))
        if self._doors.wrote:
            self._clone.end_turn(turn)
        return call, result

    def freeze(self) -> FrozenState:
        """End the agent's sessions, then read what was written and what remains."""
        if self._frozen is None:
            ended = self._clone.freeze()
            diff = self._clone.diff()
            times_s = tuple(map(self._clock.at_turn, range(1, self._turn + 1)))
            facts = DatabaseFacts(
                diff=diff,
                ledger=self._clone.ledger(),
                ended=ended,
                calls=tuple(self._calls),
                answer=self._doors.answer,
                ended_s=self._clock.at_turn(self._turn),
                times_s=times_s,
            )
            self._frozen = FrozenState(
                root=NOWHERE,
                snapshot=self.snapshot,
                changes=changes_of(diff),
                facts={"database": facts},
            )
        return self._frozen

    def runner(self) -> Runner:
        """Return what reads the final database as the grader's own role."""
        return GraderQueries(self._clone)

    def spool(self) -> str:
        """Return no path: there is no file that the agent could read."""
        return ""

    def diff(self) -> StateDiff:
        """Compare what is committed with the snapshot."""
        verification = self._build.instance.task.verification
        return state_diff(self._clone.look(), verification)

    def branch(self) -> SealedLayer:
        """Not yet."""
        raise NotImplementedError

    def seal(self) -> SealedLayer:
        """Not yet."""
        raise NotImplementedError

    def close(self) -> None:
        """Remove every trace; idempotent."""
        self._closing.close()

    def _access(self) -> Access:
        # Without an SQL door the role stays unused; the least of them will do.
        rights = "read" if self._spec.rights == "none" else self._spec.rights
        return Access(Rights(rights))

    def _called(self, call: ToolCall, result: ToolResult) -> Called:
        error = self._doors.error
        return Called(
            self._turn,
            call,
            CATEGORIES[call.name],
            ok=result.ok,
            error_kind=result.error_kind,
            state=error.state if error else "",
            message=error.message if error else "",
        )
