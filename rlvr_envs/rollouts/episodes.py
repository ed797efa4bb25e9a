"""One episode, and a group of them from one snapshot."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import gymnasium as gym
import numpy as np

from rlvr_envs.errors import WorldError
from rlvr_envs.records import Status
from rlvr_envs.rewards import advantages
from rlvr_envs.rewards.diagnostics import group_report
from rlvr_envs.rollouts.policies import PolicySpec, Speaks
from rlvr_envs.trajectories.record import Kind


@dataclass(frozen=True, slots=True)
class Job:
    """What to play.

    Attributes:
        instance: Which instance of the task; the same for a whole group.
        seed: Drives runtime randomness only.
    """

    task: str
    instance: int
    seed: int
    policy: PolicySpec

    def options(self) -> dict[str, Any]:
        """Return the reset options."""
        return {"task": self.task, "instance": self.instance}


@dataclass(frozen=True, slots=True)
class Result:
    """How an episode ended.

    Attributes:
        path_reward: Sum over the turns; a channel of its own, never in `reward`.
        path_terms: Of each turn, not bounded over the episode: for advantages.
        repetition: Sum of what repetition takes off the turns' advantages.
        potential: Phi at the last turn; 0 where none was read.
        trajectory: Its file; ``None`` where nothing was written.
        seconds: Wall time of the whole episode; not deterministic.
        reason: Why, in words, where the episode is void.
        problem: Why the trajectory's file is not whole; empty if it is.
    """

    job: Job
    status: str
    reward: float
    scorable: bool
    turns: int
    tamper: tuple[str, ...] = ()
    path_reward: float = 0.0
    path_terms: tuple[float, ...] = ()
    repetition: float = 0.0
    potential: float = 0.0
    snapshot: str = ""
    trajectory: Path | None = None
    seconds: float = 0.0
    reason: str = ""
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the line that ``rlvr run`` prints."""
        return {
            "task": self.job.task,
            "instance": self.job.instance,
            "seed": self.job.seed,
            "policy": self.job.policy.name,
            "status": self.status,
            "reward": self.reward,
            "path_reward": self.path_reward,
            "repetition": self.repetition,
            "scorable": self.scorable,
            "turns": self.turns,
            "tamper": list(self.tamper),
            "reason": self.reason,
            "seconds": round(self.seconds, 4),
            "trajectory": str(self.trajectory) if self.trajectory else None,
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes of one snapshot and one policy.

    Void episodes are counted and enter no statistic.
    """

    results: tuple[Result, ...]

    @property
    def rewards(self) -> tuple[float, ...]:
        """Rewards of the scorable episodes, in order."""
        return tuple(item.reward for item in self.results if item.scorable)

    @property
    def outcomes(self) -> advantages.Group:
        """The outcome channel, as a trainer has it."""
        return advantages.Group.of(
            [item.reward for item in self.results],
            passed=[item.status == Status.PASSED for item in self.results],
            scorable=[item.scorable for item in self.results],
        )

    def to_json(self) -> dict[str, Any]:
        """Return the summary line of ``rlvr run``; void episodes have ``None``."""
        first, group = self.results[0], self.outcomes
        paths = [item.path_reward for item in self.results]
        ends = [item.potential for item in self.results]
        report = group_report(group, path=paths, potential=ends)
        return {
            "group": first.job.task,
            "instance": first.job.instance,
            "policy": first.job.policy.name,
            "snapshot": first.snapshot,
            "episodes": len(self.results),
            "scorable": len(self.rewards),
            "rewards": self._shown(group.rewards),
            "path_rewards": self._shown(paths),
            "repetitions": self._shown(item.repetition for item in self.results),
            "advantages": self._shown(advantages.dr_grpo(group)),
            "grpo_advantages": self._shown(advantages.grpo(group)),
            "path_advantages": self._shown(
                advantages.dr_grpo(group.with_rewards(paths))
            ),
            "two_channels": [
                [round(float(n), 6) for n in turns] if item.scorable else None
                for item, turns in zip(
                    self.results, self.two_channels.total, strict=True
                )
            ],
            "mean_reward": statistics.fmean(self.rewards) if self.rewards else None,
            "std_reward": statistics.pstdev(self.rewards) if self.rewards else None,
            "pass_rate": report.pass_rate if self.rewards else None,
            "diagnostics": report.to_json(),
        }

    @property
    def two_channels(self) -> advantages.TwoChannels:
        """Both channels by turn, each by its own normaliser; a turn is one token."""
        paths = [np.array(item.path_terms) for item in self.results]
        turns = [np.ones(len(path), dtype=np.int64) for path in paths]
        group = self.outcomes
        return advantages.two_channels(
            advantages.dr_grpo(group), paths, turns, scorable=group.scorable
        )

    def _shown(self, values: Iterable[float]) -> list[float | None]:
        pairs = zip(self.results, values, strict=True)
        return [round(float(n), 6) if item.scorable else None for item, n in pairs]


def group_jobs(
    task: str, *, instance: int, seed: int, size: int, policy: PolicySpec
) -> Sequence[Job]:
    """Return the jobs of a group: one instance, seeds ``seed`` and up."""
    return [Job(task, instance, seed + number, policy) for number in range(size)]


def run_episode(
    env: gym.Env[Any, Any],
    job: Job,
    *,
    stop: Callable[[], bool] = lambda: False,
    ended: Callable[[gym.Env[Any, Any]], None] = lambda _: None,
) -> Result:
    """Play an episode to its end.

    Args:
        env: Reset here; left as the episode ended.
        job: What to play.
        stop: Asked before each turn; if true, the episode is given up as void.
        ended: Called with the environment once the verdict is in.

    Raises:
        CallerError: If the task or the policy cannot be had.
    """
    started = monotonic()
    try:
        infos = _play(env, job, stop)
        ended(env)
    except WorldError as error:
        return _void(env, job, str(error), monotonic() - started)
    return _result(env, job, infos, monotonic() - started)


def _play(
    env: gym.Env[Any, Any], job: Job, stop: Callable[[], bool]
) -> list[Mapping[str, Any]]:
    observation, info = env.reset(seed=job.seed, options=job.options())
    policy = job.policy.make(env, job.seed)
    _annotate(env, Kind.POLICY, {"name": job.policy.name})
    tools = env.get_wrapper_attr("tool_specs")
    infos: list[Mapping[str, Any]] = []
    over = False
    while not over:
        if stop():
            raise WorldError("The run was stopped.")
        action = policy(observation, info, tools)
        _keep_messages(env, policy)
        observation, _, terminated, truncated, info = env.step(action)
        infos.append(info)
        over = terminated or truncated
    return infos


def _keep_messages(env: gym.Env[Any, Any], policy: Any) -> None:
    if not isinstance(policy, Speaks):
        return
    for message in policy.take_messages():
        _annotate(env, Kind.MESSAGE, message)


def _annotate(env: gym.Env[Any, Any], kind: Kind, content: Mapping[str, Any]) -> None:
    """Add a line to the record, if there is one."""
    annotate = _attribute(env, "annotate", None)
    if annotate is not None:
        annotate(kind, content)


def _result(
    env: gym.Env[Any, Any],
    job: Job,
    infos: Sequence[Mapping[str, Any]],
    seconds: float,
) -> Result:
    info = infos[-1]
    outcome = info.get("outcome") or {"status": Status.FAILED, "reward": 0.0}
    return Result(
        job=job,
        status=str(outcome["status"]),
        reward=float(outcome["reward"]),
        scorable=bool(info.get("scorable", True)),
        turns=len(infos),
        tamper=tuple(outcome.get("tamper", ())),
        path_reward=sum(_channel(infos, "path_reward")),
        path_terms=_path_terms(env, infos),
        repetition=sum(_channel(infos, "repetition")),
        potential=float(info.get("potential", 0.0)),
        snapshot=str(_attribute(env, "provenance", {}).get("snapshot", "")),
        trajectory=_attribute(env, "trajectory_path", None),
        seconds=seconds,
        reason=str(outcome.get("reason", "")),
        problem=_attribute(env, "recording_problem", ""),
    )


def _path_terms(
    env: gym.Env[Any, Any], infos: Sequence[Mapping[str, Any]]
) -> tuple[float, ...]:
    term = _attribute(env, "term", None)
    if term is None:
        return _channel(infos, "path_reward")
    return tuple(float(term(info)) for info in infos)


def _channel(infos: Sequence[Mapping[str, Any]], name: str) -> tuple[float, ...]:
    return tuple(float(info.get(name, 0.0)) for info in infos)


def _void(env: gym.Env[Any, Any], job: Job, reason: str, seconds: float) -> Result:
    return Result(
        job=job,
        status=str(Status.INFRA_ERROR),
        reward=0.0,
        scorable=False,
        turns=len(trajectory.turns)
        if (trajectory := _attribute(env, "last_trajectory", None))
        else 0,
        trajectory=_attribute(env, "trajectory_path", None),
        seconds=seconds,
        reason=reason,
    )


def _attribute(env: gym.Env[Any, Any], name: str, default: Any) -> Any:
    try:
        return env.get_wrapper_attr(name)
    except AttributeError:
        return default
