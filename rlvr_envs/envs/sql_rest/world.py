"""The living world of one database episode: a clone, its doors, and what was seen."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rlvr_envs.confinement import ClockRule
from rlvr_envs.envs.sql_rest.changes import changes_of, state_diff
from rlvr_envs.envs.sql_rest.doors import Doors
from rlvr_envs.envs.sql_rest.engine import open_engine
from rlvr_envs.envs.sql_rest.keeping import Course, Move, digest_of_text, keep, read
from rlvr_envs.envs.sql_rest.others import Others
from rlvr_envs.envs.sql_rest.services.rivals import Rivals
from rlvr_envs.envs.sql_rest.serving import Service
from rlvr_envs.envs.sql_rest.spec import Build, WorldSpec
from rlvr_envs.envs.sql_rest.tools import CATEGORIES
from rlvr_envs.errors import SandboxError, boundary
from rlvr_envs.records import Layer, Snapshot, ToolCall, ToolResult
from rlvr_envs.registration import load
from rlvr_envs.relational import Called, DatabaseFacts
from rlvr_envs.sandbox.base import SealedLayer
from rlvr_envs.state import FrozenState, Runner, StateDiff

_SERVICES = "rlvr_envs.envs.sql_rest.services:open_service"
"""Loaded where a task has a service: a web framework takes its time."""

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
        self._before = 0
        self._turn = 0
        self._over = False
        self._seed = -1
        self._calls: list[Called] = []
        self._moves: list[Move] = []
        self._frozen: FrozenState | None = None
        self._closing = ExitStack()
        self._engine = open_engine(build, self._spec)
        self._clone = self._engine.clone
        self.snapshot = Snapshot((Layer(self._engine.digest, NOWHERE),))
        self._closing.callback(self._clone.close)
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def step(
        self, action: Any, *, turn: int, limit_s: float
    ) -> tuple[ToolCall | None, ToolResult]:
        """Run one tool call at its virtual time, and log it."""
        if self._over:
            return self._build.dispatcher.dispatch(self._doors, action)
        return self._act(action, turn=self._before + turn, limit_s=limit_s)

    def freeze(self) -> FrozenState:
        """End the agent's sessions, then read what was written and what remains."""
        if self._frozen is None:
            self._doors.close()
            ended = self._clone.freeze()
            service = self._doors.service
            diff = self._clone.diff()
            times_s = tuple(map(self._clock.at_turn, range(1, self._turn + 1)))
            facts = DatabaseFacts(
                diff=diff,
                ledger=self._clone.ledger(),
                ended=ended,
                calls=tuple(self._calls),
                exchanges=tuple(service.exchanges) if service else (),
                deliveries=tuple(service.deliveries) if service else (),
                outbound=tuple(service.outbound) if service else (),
                answer=self._doors.answer,
                ended_s=self._clock.at_turn(self._turn),
                times_s=times_s,
                overruns=self._clone.overruns,
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
        return self._engine.queries()

    def spool(self) -> str:
        """Return no path: there is no file that the agent could read."""
        return ""

    def diff(self) -> StateDiff:
        """Compare what is committed with the snapshot's."""
        verification = self._build.instance.task.verification
        return state_diff(self._clone.look(), verification)

    def branch(self) -> SealedLayer:
        """Keep the calls so far, which lead a fresh clone to the same state."""
        return keep(self._course())

    def seal(self) -> SealedLayer:
        """Keep the calls of the frozen episode, likewise."""
        self.freeze()
        return keep(self._course())

    def leave(self) -> None:
        """Leave all to `close`, which takes no time."""

    def close(self) -> None:
        """Remove every trace; idempotent."""
        self._closing.close()

    def _start(self) -> None:
        build, start = self._build, self._build.options.start
        self._doors = Doors(
            self._engine,
            self._spec,
            step_timeout_s=build.budget.step_timeout_s,
            open_service=self._open_service if self._spec.service else None,
            others=self._others(),
        )
        self._closing.callback(self._doors.close)
        if start is None:
            self._seed_with(build.options.runtime_seed)
        else:
            self._repeat(read([sealed.layer for sealed in start.layers]))

    def _others(self) -> Others | None:
        rows = self._build.instance.recipe.service.get("rivals", ())
        if self._spec.service or not rows:
            return None
        return Others(Rivals(rows), self._engine.party)

    def _open_service(self) -> Service:
        service: Service = load(_SERVICES)(
            self._spec.service,
            self._clone,
            self._build.instance.recipe.service,
            lambda: self._clock.at_turn(self._turn),
        )
        return service

    def _seed_with(self, seed: int) -> None:
        """Begin another stream of randomness, unless it is the one that flows."""
        if seed != self._seed:
            self._seed = seed
            self._clone.set_clock(self._clock.at_turn(self._turn), seed=seed)

    def _repeat(self, course: Course) -> None:
        """Play what led to the state that the episode begins from."""
        limit_s = self._build.budget.seconds

        def act(move: Move) -> str:
            self._seed_with(move.seed)
            action = move.call.to_json()
            return self._act(action, turn=move.turn, limit_s=limit_s)[1].text

        course.play(act)
        self._before = self._turn = course.turns
        self._seed_with(self._build.options.runtime_seed)
        if course.ended:
            self._over = True
            self._doors.shut()

    def _act(
        self, action: Any, *, turn: int, limit_s: float
    ) -> tuple[ToolCall | None, ToolResult]:
        self._turn = turn
        self._clone.set_clock(self._clock.at_turn(turn))
        self._doors.begin(turn, limit_s)
        with boundary(SandboxError, "running a tool call"):
            call, result = self._build.dispatcher.dispatch(self._doors, action)
        if call is not None and call.name in CATEGORIES:
            self._log(call, result)
        if self._doors.wrote:
            self._clone.end_turn(turn)
        return call, result

    def _course(self) -> Course:
        return Course(
            turns=self._turn,
            ended=self._frozen is not None,
            moves=tuple(self._moves),
        )

    def _log(self, call: ToolCall, result: ToolResult) -> None:
        error = self._doors.error
        self._calls.append(
            Called(
                self._turn,
                call,
                CATEGORIES[call.name],
                ok=result.ok,
                error_kind=result.error_kind,
                state=error.state if error else "",
                message=error.message if error else "",
            )
        )
        shown = digest_of_text(result.text)
        self._moves.append(
            Move(self._turn, self._seed, call.name, dict(call.arguments), shown)
        )
