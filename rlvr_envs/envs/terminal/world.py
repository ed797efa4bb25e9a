"""The living world of one terminal episode: a sandbox, a session, stand-ins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from rlvr_envs.confinement import ClockRule
from rlvr_envs.envs.differing import state_diff
from rlvr_envs.envs.options import Options
from rlvr_envs.envs.staging import stage
from rlvr_envs.envs.terminal.session import TerminalSession
from rlvr_envs.errors import SandboxError, boundary
from rlvr_envs.records import Budget, Layer, Places, Snapshot, ToolCall, ToolResult
from rlvr_envs.sandbox.base import Sandbox, SandboxSpec, SealedLayer
from rlvr_envs.sandbox.clock import (
    CLOCK_FILE,
    ENVIRONMENT,
    SEED_FILE,
    clock_layer,
    clock_line,
    seed_line,
)
from rlvr_envs.sandbox.egress import Egress
from rlvr_envs.sandbox.runner import PristineRunner, shared_pool
from rlvr_envs.snapshots.changes import changes
from rlvr_envs.state import Change, FrozenState, Runner, StateDiff
from rlvr_envs.tasks.task import Instance
from rlvr_envs.tools.dispatch import Dispatcher

_SPOOL_NAME = "output-{turn:04d}.log"


@dataclass(frozen=True, slots=True)
class Build:
    """What a world is built from.

    Attributes:
        backend: The sandbox class.
        dispatcher: The tools of the modality.
    """

    instance: Instance
    options: Options
    budget: Budget
    backend: type[Sandbox]
    places: Places
    dispatcher: Dispatcher[TerminalSession]


class TerminalWorld:
    """A shell in a sandbox; `envs.base.World` says what each method promises.

    Raises:
        WorldError: If it cannot be built; nothing is left behind then.
    """

    def __init__(self, build: Build) -> None:
        self._build = build
        confinement = build.options.confinement
        task = build.instance.task
        rule = confinement.clock
        self._clock: ClockRule | None = rule.starting(task.epoch_s) if rule else None
        self._staged = stage(build.instance, places=build.places, backend=build.backend)
        self.snapshot = Snapshot((*self._own_layers(), *self._branched()))
        self._turn = 0
        self._raw = b""
        self._frozen: FrozenState | None = None
        self._closing = ExitStack()
        self._ending = ExitStack()
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def step(
        self, action: Any, *, turn: int, limit_s: float
    ) -> tuple[ToolCall | None, ToolResult]:
        """Run one tool call at its virtual time, then collect what was seen."""
        self._turn = turn
        self._sandbox.settle()
        if turn == 1 and self._egress:
            self._egress.begin()
        self._session.limit_s(limit_s)
        with boundary(SandboxError, "running a tool call"):
            call, result = self._build.dispatcher.dispatch(self._session, action)
        self._pass_turn()
        self._raw = result.raw
        seen = self._egress.collect() if self._egress else ()
        return call, replace(result, events=(*result.events, *seen)) if seen else result

    def freeze(self) -> FrozenState:
        """Kill everything, prove that nothing is left, and show what remains."""
        if self._frozen is not None:
            return self._frozen
        self._sandbox.settle()
        census = self._sandbox.kill()
        if census.remaining:
            raise SandboxError(f"{census.remaining} processes outlived the kill.")
        self._session.close()
        self._frozen = FrozenState(
            root=self._sandbox.view(),
            snapshot=Snapshot(self._own_layers()),
            changes=self._changes(),
            survivors=census.survivors,
            id_base=self._sandbox.id_base,
        )
        return self._frozen

    def runner(self) -> Runner:
        """Return a runner on the pristine image, which no agent ever touched."""
        make = _maker(self._build.backend, self._build.places)
        pristine = Snapshot(self._staged.layers[:1])
        return PristineRunner(
            make,
            pristine=pristine,
            pool=shared_pool(make, pristine),
            final_root=self._frozen.root if self._frozen else None,
            places=self._build.places,
        )

    def spool(self) -> str:
        """Show the last call's raw output as a read-only file of the harness."""
        try:
            return self._sandbox.put(_SPOOL_NAME.format(turn=self._turn), self._raw)
        except SandboxError:
            return ""

    def diff(self) -> StateDiff:
        """Compare the files with the snapshot's while everything stands still."""
        if self._frozen is not None:
            return self._differing(self._frozen.changes)
        with boundary(SandboxError, "comparing a living state with its snapshot"):
            self._sandbox.settle()
            self._sandbox.freeze()
            try:
                return self._differing(self._changes())
            finally:
                self._sandbox.thaw()

    def branch(self) -> SealedLayer:
        """Copy the writable layer while everything inside stands still."""
        self._sandbox.settle()
        return self._sandbox.branch()

    def seal(self) -> SealedLayer:
        """Keep the writable layer of the frozen episode as a layer."""
        self.freeze()
        return self._sandbox.commit()

    def leave(self) -> None:
        """Close everything but the sandbox, whose end is begun.

        That end takes all processes along, so the session has none to kill.
        """
        self._sandbox.retire()
        self._ending.close()

    def close(self) -> None:
        """Remove every trace; idempotent."""
        self._ending.close()
        self._closing.close()

    def _own_layers(self) -> tuple[Layer, ...]:
        """Return what the instance itself starts from, branches apart."""
        pinned = (clock_layer(self._build.places),) if self._clock else ()
        return (*self._staged.layers, *pinned)

    def _branched(self) -> tuple[Layer, ...]:
        start = self._build.options.start
        return tuple(sealed.layer for sealed in start.layers) if start else ()

    def _start(self) -> None:
        build, confinement = self._build, self._build.options.confinement
        spec = SandboxSpec(self.snapshot, confinement, files=self._clock_files())
        self._sandbox = build.backend(spec, build.places)
        self._closing.callback(self._sandbox.destroy)
        self._sandbox.start()
        self._session = self._make_session()
        self._ending.callback(self._session.close)
        self._session.launch()
        self._egress = None
        if confinement.egress is not None:
            self._egress = Egress(self._sandbox, confinement.egress)
            self._ending.callback(self._egress.close)
            self._egress.start()
        self._session.start()
        self._pass_turn()

    def _clock_files(self) -> Mapping[str, bytes]:
        if self._clock is None:
            return {}
        seed = self._build.options.runtime_seed
        return {
            SEED_FILE: seed_line(self._clock, seed, self.snapshot.digest),
            CLOCK_FILE: clock_line(self._clock, 0),
        }

    def _make_session(self) -> TerminalSession:
        build, task = self._build, self._build.instance.task
        return TerminalSession(
            self._sandbox,
            user=task.user,
            workdir=task.workdir,
            env=self._environment(),
            step_timeout_s=build.budget.step_timeout_s,
            spool_bytes=build.options.confinement.limits.spool_bytes,
        )

    def _environment(self) -> Mapping[str, str]:
        pinned = ENVIRONMENT if self._clock else {}
        return {**pinned, **self._build.instance.task.env}

    def _pass_turn(self) -> None:
        """Give files the time of this turn, and the clock that of the next one."""
        if self._clock is not None:
            wall_s = self._clock.at_turn(self._turn)
            line = clock_line(self._clock, self._turn + 1)
            self._sandbox.pass_turn(wall_s, CLOCK_FILE, line)

    def _differing(self, found: tuple[Change, ...]) -> StateDiff:
        start = self._build.options.start
        sealed = [item.layer.path for item in start.layers] if start else []
        tops = (self._sandbox.upper(), *reversed(sealed))
        return state_diff(found, tops, self._build.instance.task.verification)

    def _changes(self) -> tuple[Change, ...]:
        """Return what differs from the instance's own snapshot, branches included."""
        below = list(self._own_layers())
        found: dict[str, Change] = {}
        for layer in self._branched():
            found.update({item.path: item for item in changes(layer.path, below)})
            below.append(layer)
        id_base = self._sandbox.id_base
        upper = changes(self._sandbox.upper(), below, id_base=id_base)
        found.update({item.path: item for item in upper})
        return tuple(sorted(found.values(), key=lambda item: item.path))


@cache
def _maker(backend: type[Sandbox], places: Places) -> Callable[[SandboxSpec], Sandbox]:
    """Return one object for each backend and place: warm examiners are kept by it."""
    return partial(backend, places=places)
