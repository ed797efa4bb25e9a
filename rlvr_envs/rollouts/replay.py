"""Play a recorded episode again, in fresh processes, and compare every byte."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from rlvr_envs.errors import CallerError, RlvrError, SnapshotError
from rlvr_envs.records import JsonObject
from rlvr_envs.trajectories.encoding import encode
from rlvr_envs.trajectories.record import Trajectory, Turn
from rlvr_envs.trajectories.store import read

DIGEST_KEYS = ("instance_digest", "snapshot", "verifier")
"""What provenance must agree in before a replay means anything."""

_LIVING_OPTIONS = ("start", "confinement")

MADE_ONCE: dict[bytes, gym.Env[Any, Any]] = {}
"""Environments of this worker process, by id and arguments."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What to play again, and where.

    Attributes:
        env: Id to use in place of the recorded one; empty means the recorded.
        kwargs: Put over the recorded arguments of `gym.make`.
        index: Which of the repetitions.
    """

    path: str
    env: str = ""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    index: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a replay left the record.

    Attributes:
        turn: 0 is the reset.
        field: Such as ``observation``, ``reward`` or ``info.exit_code``.
    """

    turn: int
    field: str
    recorded: Any
    replayed: Any

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "turn": self.turn,
            "field": self.field,
            "recorded": self.recorded,
            "replayed": self.replayed,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one replay showed.

    Attributes:
        exempt: Turns that timed out, which are not compared.
        fault: Class name and message where the replay could not be made at all.
    """

    path: str
    difference: Difference | None = None
    exempt: int = 0
    fault: tuple[str, str] | None = None


def replay_all(
    replays: Sequence[Replay],
    *,
    workers: int = 1,
    done: Callable[[Comparison], None] = lambda _: None,
) -> Iterator[Comparison]:
    """Yield a comparison for each replay, in order.

    Args:
        replays: Each is one episode.
        workers: Fresh processes (spawned, never forked), at least 1.
        done: Called as each comparison is at hand.

    Raises:
        SnapshotError: If a record was made on other digests than are here.
        CallerError: If a record cannot be replayed.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        futures = [pool.submit(_replay_in_worker, item) for item in replays]
        try:
            for future in futures:
                comparison = future.result()
                _raise_fault(comparison)
                done(comparison)
                yield comparison
        finally:
            for future in futures:
                future.cancel()


def _raise_fault(comparison: Comparison) -> None:
    if comparison.fault is None:
        return
    kind, message = comparison.fault
    raise (SnapshotError if kind == "SnapshotError" else CallerError)(message)


def _replay_in_worker(item: Replay) -> Comparison:
    try:
        return replay_one(_env_for(item), read(item.path))
    except (RlvrError, ValueError) as error:
        return Comparison(item.path, fault=(type(error).__name__, str(error)))


def _env_for(item: Replay) -> gym.Env[Any, Any]:
    recorded = read(item.path)
    header = recorded.header
    key = encode([header.get("env"), header.get("kwargs"), item.env, item.kwargs])
    if key not in MADE_ONCE:
        MADE_ONCE[key] = make_for(recorded, item.env, item.kwargs)
    return MADE_ONCE[key]


def make_for(
    recorded: Trajectory, env_id: str = "", kwargs: Mapping[str, Any] | None = None
) -> gym.Env[Any, Any]:
    """Build the environment of a record; an id and arguments that are given win.

    Raises:
        CallerError: If the record names none, or there is no such id.
    """
    wanted = env_id or recorded.header.get("env", "")
    if not wanted:
        raise CallerError(
            f"{recorded.path} does not say which environment it is of.",
            remedy="name it with --env",
        )
    return make(wanted, {**recorded.header.get("kwargs", {}), **(kwargs or {})})


def make(env_id: str, kwargs: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Build an environment by id, ours being registered first.

    Raises:
        CallerError: If there is no such id.
    """
    import rlvr_envs  # noqa: PLC0415  # registers; a worker starts without it

    del rlvr_envs
    plain = {key: value for key, value in kwargs.items() if key != "env_id"}
    try:
        return gym.make(env_id, disable_env_checker=True, **plain)
    except (gym.error.UnregisteredEnv, ModuleNotFoundError) as error:
        raise CallerError(
            f"There is no environment {env_id!r}: {str(error).rstrip('.')}.",
            remedy="see `rlvr list`; name one of your own as module:id",
        ) from error
    except TypeError as error:
        raise CallerError(
            f"{env_id} cannot be made from {sorted(plain)}: {_first(error)}.",
            remedy="leave out what this environment does not know",
        ) from error


def _first(error: TypeError) -> str:
    """Return what was said before Gymnasium added how it was called."""
    return str(error).partition(" was raised from the environment creator")[0]


def replay_one(env: gym.Env[Any, Any], recorded: Trajectory) -> Comparison:
    """Play the recorded actions and compare what comes back.

    Raises:
        SnapshotError: If the environment stands on other digests.
        CallerError: If nothing was recorded.
    """
    path, header = str(recorded.path), recorded.header
    if not header or not recorded.opening:
        raise CallerError(
            f"{path} holds no reset; nothing can be replayed.",
            remedy="record the episode again",
        )
    observation, info = env.reset(seed=header["seed"], options=options_of(recorded))
    check_digests(env, recorded)
    opening = {"observation": observation, "info": info}
    difference = _compare(0, _opening(recorded), opening)
    turns, exempt = iter(recorded.turns), 0
    while difference is None and (turn := next(turns, None)) is not None:
        result = env.step(turn.action)
        timed_out = bool(turn.info.get("timed_out"))
        exempt += timed_out
        if not timed_out:
            difference = _compare(turn.number, _expected(turn), _got(result))
    return Comparison(path, difference, exempt)


def options_of(recorded: Trajectory) -> dict[str, Any]:
    """Return the reset options that give the recorded episode again.

    Raises:
        CallerError: If it began in a way that no file can hold.
    """
    header = recorded.header
    for name in _LIVING_OPTIONS:
        if name in header["options"]:
            raise CallerError(
                f"{recorded.path} was recorded with the option {name!r}, which lives "
                "in the process that set it.",
                remedy="record the episode from its task's own snapshot",
            )
    named = {"task": header["task"], "instance": header["instance"]}
    drawn = header["provenance"].get("runtime_seed")
    return named if drawn is None else {**named, "runtime_seed": drawn}


def check_digests(env: gym.Env[Any, Any], recorded: Trajectory) -> None:
    """Hold that a freshly reset environment stands on the recorded digests.

    Raises:
        SnapshotError: Naming the first digest that differs.
    """
    here = env.get_wrapper_attr("provenance")
    there = recorded.header["provenance"]
    for key in DIGEST_KEYS:
        old, new = there.get(key), json.loads(encode(here.get(key)))
        if old != new:
            raise SnapshotError(
                f"{recorded.path} was recorded on another {key}: {old}, here {new}.",
                remedy="restore that image and task version, or record it again",
            )


def _opening(recorded: Trajectory) -> JsonObject:
    line = recorded.opening
    return {"observation": line["observation"], "info": line["info"]}


def _expected(turn: Turn) -> JsonObject:
    line = turn.to_json()
    return {key: line[key] for key in _STEP_KEYS}


def _got(result: tuple[Any, ...]) -> JsonObject:
    observation, reward, terminated, truncated, info = result
    values = (observation, float(reward), bool(terminated), bool(truncated), info)
    return dict(zip(_STEP_KEYS, values, strict=True))


_STEP_KEYS = ("observation", "reward", "terminated", "truncated", "info")


def _compare(turn: int, recorded: JsonObject, got: JsonObject) -> Difference | None:
    if encode(recorded) == encode(got):
        return None
    replayed = json.loads(encode(got))
    name, old, new = first_difference("", recorded, replayed)
    return Difference(turn, name, old, new)


def first_difference(name: str, one: Any, other: Any) -> tuple[str, Any, Any]:
    """Return path and both values of the first part in which two values differ.

    The values must differ; a part that only one has stands as ``None`` in the other.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}):
            old, new = one.get(key), other.get(key)
            if encode(old) != encode(new):
                return first_difference(f"{name}.{key}" if name else key, old, new)
    return name, one, other


def recorded_replays(path: str, times: int, **kwargs: Any) -> Sequence[Replay]:
    """Return the replays of one file, ``times`` of them."""
    return [Replay(path, index=index, **kwargs) for index in range(times)]
