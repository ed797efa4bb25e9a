"""Record every episode: in memory always, on disk where a folder is given.

The score of a ticket stands beside its trajectory as well, as ``*.score.json``.

A record that cannot be written is no fault of the agent, of the world or of the
judge, so it costs no episode: the wrapper warns once with the remedy, cuts the file
to its last whole line, and `last_trajectory` still holds everything. A folder that
can never be written to is the caller's mistake and is raised by the first `reset`.
"""

from __future__ import annotations

import errno
import json
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium as gym
from typing_extensions import override

from rlvr_envs.errors import CallerError, WorldError
from rlvr_envs.records import ToolCall, ToolSpec
from rlvr_envs.tools.parsing import parse_call
from rlvr_envs.trajectories.encoding import encode
from rlvr_envs.trajectories.record import SCHEMA, Ending, Kind, Trajectory, Turn
from rlvr_envs.trajectories.store import (
    SCORE_SUFFIX,
    SUFFIX,
    Writer,
    new_writer,
    parse,
)

_HOST_ONLY = frozenset({"record", "places", "folder", "database"})
_CALLERS_FAULT = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.ENOENT,
        errno.EEXIST,
        errno.ENOTDIR,
        errno.EROFS,
        errno.ENAMETOOLONG,
    }
)


class RecordingWarning(UserWarning):
    """A trajectory could not be written; the episode goes on."""


class RecordTrajectory(
    gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs
):
    """Keep what happened, line by line; the outermost layer of a stack.

    Args:
        env: The environment; `provenance`, `timings` and `tool_specs` are taken
            from it where it has them.
        folder: Where files go, made on the first reset; ``None`` writes nothing.
    """

    def __init__(
        self, env: gym.Env[Any, Any], *, folder: str | Path | None = None
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, folder=folder)
        super().__init__(env)
        self._folder = Path(folder) if folder is not None else None
        self._writer: Writer | None = None
        self._lines: list[bytes] = []
        self._turn = 0
        self._living = False
        self._path: Path | None = None
        self._problem = ""
        self._timed: gym.Env[Any, Any] | None = None
        self._tools = b""

    @property
    def last_trajectory(self) -> Trajectory:
        """The record of the living or the last episode so far."""
        return parse([*self._lines, b""], path=self._path)

    @property
    def trajectory_path(self) -> Path | None:
        """The file of the living or the last episode; ``None`` if there is none."""
        return self._path

    @property
    def recording_problem(self) -> str:
        """Why the file of this episode is not whole; empty if it is."""
        return self._problem

    def annotate(self, kind: Kind, content: Mapping[str, Any]) -> None:
        """Add a line of a kind that is never compared."""
        self._write({**content, "kind": kind, "turn": self._turn})

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset, end the record of an abandoned episode, and start a new one.

        Raises:
            CallerError: If the folder can never be written to.
        """
        self._end(Ending.ABANDONED)
        self._lines, self._turn, self._path, self._problem = [], 0, None, ""
        began = time.monotonic()
        observation, info = self.env.reset(seed=seed, options=options)
        seconds = time.monotonic() - began
        header = self._header(seed, options)
        self._begin(header)
        opening = {"kind": Kind.RESET, "observation": observation, "info": info}
        self._append(self._with_tools(encode(header)))
        self._write(opening, self._timing(seconds))
        return observation, info

    @override
    def step(
        self, action: Any
    ) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and write the turn before returning."""
        began = time.monotonic()
        try:
            result = self.env.step(action)
        except WorldError:
            self._end(Ending.BROKEN)
            raise
        seconds = time.monotonic() - began
        self._turn += 1
        turn = _turn(self._turn, action, result)
        self._write(turn.to_json(), self._timing(seconds))
        if turn.terminated or turn.truncated:
            ending = Ending.TERMINATED if turn.terminated else Ending.TRUNCATED
            self._end(ending, turn.info.get("outcome", {}))
        return result

    @override
    def close(self) -> None:
        """End the record and close the environment; idempotent."""
        self._end(Ending.ABANDONED)
        super().close()

    def _begin(self, header: Mapping[str, Any]) -> None:
        self._living = True
        if self._folder is None:
            return
        stem = "{task}.i{instance}.s{seed}".format_map(header)
        try:
            self._writer = new_writer(self._folder, stem)
            self._path = self._writer.path
        except OSError as error:
            self._fail(error)

    def _end(self, ending: Ending, outcome: Mapping[str, Any] | None = None) -> None:
        if not self._living:
            return
        footer = {"kind": Kind.FOOTER, "ending": ending, "turns": self._turn}
        self._write({**footer, "outcome": outcome or {}})
        self._living = False
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._keep_score((outcome or {}).get("details", {}).get("ticket"))

    def _keep_score(self, score: Mapping[str, Any] | None) -> None:
        """Write a ticket's score beside the trajectory, whose footer has it too."""
        if score is None or self._path is None:
            return
        path = self._path.with_name(self._path.name.removesuffix(SUFFIX) + SCORE_SUFFIX)
        text = json.dumps(score, indent=2, sort_keys=True) + "\n"
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            self._fail(error)

    def _with_tools(self, header: bytes) -> bytes:
        """Add what is the same in each header of an environment, and most of it.

        ``tools`` sorts behind every other key.
        """
        if not self._tools:
            tools = [_tool(tool) for tool in self._below("tool_specs", ())]
            self._tools = encode({"tools": tools})
        return header[:-1] + b"," + self._tools[1:]

    def _write(self, *events: Mapping[str, Any]) -> None:
        self._append(*(encode(event) for event in events))

    def _append(self, *lines: bytes) -> None:
        self._lines.extend(lines)
        if self._writer is None:
            return
        try:
            self._writer.append(*lines)
        except OSError as error:
            self._writer.close()
            self._writer = None
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        reason = f"No trajectory can be written to {self._folder}: {error.strerror}."
        if error.errno in _CALLERS_FAULT:
            self._living = False
            raise CallerError(
                reason, remedy="name a folder that this user can write to"
            ) from error
        self._problem = reason
        warnings.warn(
            f"{reason} The episode goes on; `last_trajectory` has its whole record. "
            "Remedy: free some space or name another folder.",
            RecordingWarning,
            stacklevel=4,
        )

    def _timing(self, whole_s: float) -> dict[str, Any]:
        """Return what the layers below say, and the time of all of them together."""
        if self._timed is None:
            self._timed = _first_with(self.env, "timings") or self.env
        seconds = {**getattr(self._timed, "timings", {}), "whole_s": whole_s}
        return {"kind": Kind.TIMING, "turn": self._turn, "seconds": seconds}

    def _header(
        self, seed: int | None, options: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        spec = self.env.unwrapped.spec
        kwargs = dict(spec.kwargs) if spec else {}
        provenance = dict(self._below("provenance", {}))
        asked = options or {}
        return {
            "kind": Kind.HEADER,
            "schema": SCHEMA,
            "env": spec.id if spec else "",
            "kwargs": {k: v for k, v in kwargs.items() if k not in _HOST_ONLY},
            "task": provenance.get("task", asked.get("task", "")),
            "instance": provenance.get("instance", asked.get("instance", 0)),
            "seed": provenance.get("seed", seed),
            "options": dict(asked),
            "provenance": provenance,
            "stack": _stack(self.env),
        }

    def _below(self, name: str, default: Any) -> Any:
        try:
            return self.env.get_wrapper_attr(name)
        except AttributeError:
            return default


def _turn(number: int, action: Any, result: tuple[Any, ...]) -> Turn:
    observation, reward, terminated, truncated, info = result
    outcome = info.get("outcome", {})
    return Turn(
        number=number,
        action=action,
        call=_parsed(action),
        observation=observation,
        info=info,
        reward=float(reward),
        terminated=bool(terminated),
        truncated=bool(truncated),
        channels={
            "outcome": float(outcome.get("reward", 0.0)),
            "path": float(info.get("path_reward", 0.0)),
        },
    )


def _parsed(action: Any) -> Mapping[str, Any]:
    call = parse_call(action)
    return call.to_json() if isinstance(call, ToolCall) else {}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {**tool.openai(), "category": str(tool.category)}


def _first_with(env: gym.Env[Any, Any], name: str) -> gym.Env[Any, Any] | None:
    """Return the outermost layer that has an attribute of its own."""
    while not hasattr(env, name):
        if not isinstance(env, gym.Wrapper):
            return None
        env = env.env
    return env


def _stack(env: gym.Env[Any, Any]) -> list[str]:
    """Return the names of the layers below, outermost first."""
    names = []
    while isinstance(env, gym.Wrapper):
        names.append(env.class_name())
        env = env.env
    return [*names, type(env).__name__]
