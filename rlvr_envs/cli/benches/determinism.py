"""Determinism: each gold trajectory, replayed many times in fresh processes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvr_envs.cli.benches.measuring import Setting
from rlvr_envs.cli.targets import env_kwargs, env_maker, task_names
from rlvr_envs.rollouts.episodes import Job, run_episode
from rlvr_envs.rollouts.policies import PolicySpec, named
from rlvr_envs.rollouts.replay import recorded_replays, replay_all


def measure(setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield one line a task."""
    args = setting.args
    with tempfile.TemporaryDirectory() as folder:
        env = env_maker(args, record=Path(folder))()
        tasks = task_names(env, args.task or ["all"])
        policy = named(args.policy)
        paths = {task: _record(env, setting, task, policy) for task in tasks}
        env.close()
        for task, path in paths.items():
            yield _line(setting, task, path)


def _record(env: Any, setting: Setting, task: str, policy: PolicySpec) -> str:
    result = run_episode(env, Job(task, setting.args.instance, 0, policy))
    return str(result.trajectory)


def _line(setting: Setting, task: str, path: str) -> dict[str, Any]:
    replays = recorded_replays(
        path, setting.rounds, env=setting.args.env, kwargs=env_kwargs(setting.args)
    )
    compared = list(
        replay_all(
            replays, workers=setting.args.workers, done=lambda _: setting.tick(task)
        )
    )
    different = [item.difference for item in compared if item.difference]
    first = different[0].to_json() if different else None
    return setting.line(
        "determinism",
        task=task,
        identical=len(compared) - len(different),
        first_difference=first,
    )
