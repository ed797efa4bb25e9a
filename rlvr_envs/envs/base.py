"""The one loop that every modality shares: reset, step, budgets, the three fates."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import gymnasium as gym
from typing_extensions import override

from rlvr_envs.envs.arguments import check_kind
from rlvr_envs.envs.options import SEED_LIMIT, Options, Start, read_options
from rlvr_envs.errors import ResetNeeded, WorldError, WrongArgument
from rlvr_envs.records import (
    Budget,
    Outcome,
    Places,
    Snapshot,
    Status,
    ToolCall,
    ToolResult,
    ToolSpec,
    digest_of,
)
from rlvr_envs.sandbox.base import SealedLayer
from rlvr_envs.spaces import ToolCallSpace, Unicode
from rlvr_envs.state import FrozenState, Runner, StateDiff
from rlvr_envs.tasks.task import Instance
from rlvr_envs.tasks.taskset import Taskset
from rlvr_envs.verifiers import validate_options


class World(Protocol):
    """The living world of one episode; made by a modality, used by the loop."""

    @property
    def snapshot(self) -> Snapshot:
        """What the episode started from."""

    def step(
        self, action: Any, *, turn: int, limit_s: float
    ) -> tuple[ToolCall | None, ToolResult]:
        """Run one tool call; ``limit_s`` is what is left of the episode."""

    def freeze(self) -> FrozenState:
        """Stop, kill and count every process, then return the final state."""

    def runner(self) -> Runner:
        """Return what the verifiers may run things with."""

    def spool(self) -> str:
        """Show the last call's raw output to the agent; return its path inside."""

    def diff(self) -> StateDiff:
        """Compare the living state with the snapshot; nothing inside notices.

        Raises:
            WorldError: If it cannot be read.
        """

    def branch(self) -> SealedLayer:
        """Copy the writable layer of the living episode."""

    def seal(self) -> SealedLayer:
        """Make the writable layer of the frozen episode a layer."""

    def leave(self) -> None:
        """Begin to remove every trace, and return at once; `close` follows."""

    def close(self) -> None:
        """Remove every trace; idempotent."""


_DEFAULTS: Mapping[str, Any] = {
    "tool": "",
    "ok": True,
    "error_kind": "",
    "exit_code": -1,
    "turn": 0,
    "bytes_total": 0,
    "truncated_bytes": 0,
    "timed_out": False,
    "limit": "",
    "path_reward": 0.0,
    "repetition": 0.0,
}


class ToolEnv(gym.Env[str, Any]):
    """An episode of tool calls on a task, in a world of its own.

    The bare environment pays 0.0: what an episode earned is for a judge to say.
    Nothing starts before `reset`; `close` is idempotent.

    Args:
        tasks: Package or folder of a taskset.
        task: The task to play where `reset` names none; by default the first.
        budget: Turns, seconds and step timeout where a task has none of its own.
        turns: Most tool calls of an episode, whatever the task says.
        seconds: Most wall time of an episode, likewise.
        step_timeout_s: Most wall time of a tool call, likewise.
        places: Where images, layers and living sandboxes are kept.
        render_mode: ``"ansi"`` or ``None``.

    Raises:
        WrongArgument: If the taskset, the task, or the render mode is not known, a
            limit is not positive and finite, or a value is of another type.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": ["ansi"],
        "render_fps": 1,
    }
    tool_specs: tuple[ToolSpec, ...] = ()

    def __init__(  # noqa: PLR0913 - each is a limit or a place of its own
        self,
        *,
        tasks: str | Path,
        task: str | None = None,
        budget: Budget | None = None,
        turns: int | None = None,
        seconds: float | None = None,
        step_timeout_s: float | None = None,
        places: Places | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise WrongArgument(
                f"render_mode cannot be {render_mode!r}.", remedy="give 'ansi' or None"
            )
        _check_types(tasks, task, budget, places)
        self.taskset = Taskset(tasks, validate=validate_options)
        if not self.taskset.names:
            raise WrongArgument(
                f"The taskset {tasks} holds no task.",
                remedy="name a folder whose folders each hold a task.yaml",
            )
        if task is not None:
            self.taskset.get(task)
        self.task = task
        self.budget = budget or Budget()
        limits = {"turns": turns, "seconds": seconds, "step_timeout_s": step_timeout_s}
        self._limits = {name: n for name, n in limits.items() if n is not None}
        replace(self.budget, **self._limits)  # type: ignore[arg-type]
        self.places = places or Places()
        self.render_mode = render_mode
        self.action_space = ToolCallSpace(self.tool_specs)
        self.observation_space = Unicode()
        self.timings: dict[str, float] = {}
        self._world: World | None = None
        self._instance: Instance | None = None
        self._options: Options | None = None
        self._shown = ""
        self._turn = 0
        self._began = 0.0
        self._ended = True

    @abstractmethod
    def _open(self, instance: Instance, options: Options) -> World:
        """Build the world of one episode.

        Raises:
            WorldError: If it cannot be built.
        """

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode from its snapshot.

        Args:
            seed: Seeds what is random inside; it does not choose the instance.
            options: ``task`` (name), ``instance`` (number), ``confinement``,
                ``runtime_seed`` (int, in place of one drawn from ``seed``),
                ``start`` (a `Start`).

        Returns:
            The instruction, and an info whose counters are zero.

        Raises:
            WrongArgument: If an option is unknown or out of range.
            WrongType: If an option is of another type.
            MissingRequirement: If the machine lacks something.
            WorldError: If the world cannot be built.
        """
        super().reset(seed=seed)
        began = time.monotonic()
        drawn = int(self.np_random.integers(SEED_LIMIT))
        fallback = self.task or self.taskset.names[0]
        self._options = read_options(options or {}, task=fallback, drawn_seed=drawn)
        self._instance = self._choose(self._options)
        self._world = self._next_world(self._instance, self._options)
        self._turn, self._ended = 0, False
        self._began = time.monotonic()
        self.timings = {"reset_s": self._began - began}
        self._shown = self._instance.instruction
        return self._shown, self._info({})

    @override
    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Run one tool call.

        Returns:
            Observation, reward (0.0), terminated (a submit, or the world broke),
            truncated (turns or time used up; never together with terminated), info.

        Raises:
            ResetNeeded: If there is no living episode.
        """
        world = self._living()
        self._turn += 1
        budget = self._budget()
        began = time.monotonic()
        left_s = max(0.05, budget.seconds - (began - self._began))
        try:
            call, result = world.step(action, turn=self._turn, limit_s=left_s)
        except WorldError as error:
            return self._void(error)
        finally:
            self.timings = {"step_s": time.monotonic() - began}
        self._shown = result.text
        terminated = result.submits
        truncated = not terminated and self._is_spent(budget)
        self._ended = terminated or truncated
        return result.text, 0.0, terminated, truncated, self._info(_facts(call, result))

    @override
    def render(self) -> str | None:
        """Return the last observation under a line that says where we are."""
        if self.render_mode is None or self._instance is None:
            return None
        head = f"{self._instance.task.name} #{self._instance.number}"
        return f"[{head}, turn {self._turn}]\n{self._shown}"

    @override
    def close(self) -> None:
        """End the episode and remove every trace of it."""
        self._ended = True
        self._close_world()

    @property
    def instance(self) -> Instance:
        """The task instance of the present episode."""
        if self._instance is None:
            raise ResetNeeded("There is no episode.", remedy="Call reset() first.")
        return self._instance

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What the present episode was made from, as plain data."""
        instance, options = self.instance, self._options
        world = self._world
        manifest = sorted(instance.task.verification.manifest.items())
        return {
            "task": instance.task.name,
            "instance": instance.number,
            "instance_digest": instance.digest,
            "image": instance.task.image,
            "snapshot": world.snapshot.digest if world else "",
            "verifier": digest_of([part for row in manifest for part in row]),
            "runtime_seed": options.runtime_seed if options else 0,
            "branched": bool(options and options.start),
        }

    def freeze(self) -> FrozenState:
        """Stop, kill and count every process, then return the final state.

        Raises:
            ResetNeeded: If there is no episode.
            SandboxError: If anything outlives the kill.
        """
        self._ended = True
        return self._present().freeze()

    def runner(self) -> Runner:
        """Return what the verifiers of this episode may run things with."""
        return self._present().runner()

    def spool(self) -> str:
        """Show the last call's raw output to the agent; return its path inside."""
        return self._present().spool()

    def diff(self) -> StateDiff:
        """Read how the state differs from its snapshot; nothing inside notices.

        Raises:
            ResetNeeded: If there is no episode.
            WorldError: If the state cannot be read; the episode is over then.
        """
        world = self._present()
        try:
            return world.diff()
        except WorldError:
            self._ended = True
            raise

    def branch(self) -> Start:
        """Freeze the living episode, copy what it wrote, and let it go on.

        Raises:
            ResetNeeded: If there is no living episode.
        """
        return self._start(self._living().branch())

    def seal(self) -> Start:
        """Make an ended, frozen episode a place to start from, without copying.

        Raises:
            ResetNeeded: If the episode has not ended, or there is none.
        """
        if not self._ended:
            raise ResetNeeded(
                "A living episode cannot be sealed.",
                remedy="Call branch(), or end the episode first.",
            )
        return self._start(self._present().seal())

    def _start(self, layer: SealedLayer) -> Start:
        before = (
            self._options.start.layers if self._options and self._options.start else ()
        )
        return Start(self.instance, (*before, layer))

    def _choose(self, options: Options) -> Instance:
        if options.start is not None:
            return options.start.instance
        return self.taskset.instance(options.task, options.number)

    def _budget(self) -> Budget:
        given = {**self.instance.task.budget, **self._limits}
        return replace(self.budget, **given)  # type: ignore[arg-type]

    def _is_spent(self, budget: Budget) -> bool:
        elapsed = time.monotonic() - self._began
        return self._turn >= budget.turns or elapsed >= budget.seconds

    def _present(self) -> World:
        if self._world is None:
            raise ResetNeeded("There is no episode.", remedy="Call reset() first.")
        return self._world

    def _living(self) -> World:
        if self._ended or self._world is None:
            state = "has ended" if self._world else "has not begun"
            raise ResetNeeded(f"The episode {state}.", remedy="Call reset() first.")
        return self._world

    def _info(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        fresh: dict[str, Any] = {"violations": [], "fulfilments": [], "events": []}
        return {**_DEFAULTS, **fresh, **facts, "turn": self._turn}

    def _void(self, error: WorldError) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._ended = True
        reason = type(error).__name__
        outcome = Outcome(Status.INFRA_ERROR, 0.0, reason=f"{reason}: {error}")
        self._shown = "[the environment broke; this episode does not count]"
        facts = {"ok": False, "error_kind": "infra_error"}
        ending = {"outcome": outcome.to_json(), "scorable": False}
        return self._shown, 0.0, True, False, self._info({**facts, **ending})

    def _next_world(self, instance: Instance, options: Options) -> World:
        """Build a world while the last one's end, begun before, goes on."""
        last, self._world = self._world, None
        if last is None:
            return self._open(instance, options)
        try:
            last.leave()
            return self._open(instance, options)
        finally:
            last.close()

    def _close_world(self) -> None:
        world, self._world = self._world, None
        if world is not None:
            world.close()


def _check_types(tasks: object, task: object, budget: object, places: object) -> None:
    rows: tuple[tuple[str, object, Any, str], ...] = (
        ("tasks", tasks, str | Path, "a package or a folder"),
        ("task", task, str | None, "a task's name"),
        ("budget", budget, Budget | None, "a rlvr_envs.records.Budget"),
        ("places", places, Places | None, "a rlvr_envs.records.Places"),
    )
    for name, value, kinds, wanted in rows:
        check_kind(name, value, kinds, wanted=wanted)


def _facts(call: ToolCall | None, result: ToolResult) -> dict[str, Any]:
    return {
        "tool": call.name if call else "",
        "ok": result.ok,
        "error_kind": str(result.error_kind),
        "exit_code": result.exit_code,
        "bytes_total": result.bytes_total,
        "truncated_bytes": result.omitted_bytes,
        "timed_out": result.timed_out,
        "limit": result.limit,
        "events": [event.to_json() for event in result.events],
    }
