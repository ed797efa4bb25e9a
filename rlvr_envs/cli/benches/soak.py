"""Soak: many episodes, some trainers killed, and what was left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from rlvr_envs.cli.benches import databases
from rlvr_envs.cli.benches.census import Census
from rlvr_envs.cli.benches.measuring import (
    WARM_UPS,
    Samples,
    Setting,
    policy_actions,
    ratio,
    rss_kib,
)
from rlvr_envs.cli.targets import passed_on, task_names
from rlvr_envs.errors import RlvrError

_SETTLE_S = 20.0
_RSS_SLACK = 1.05
_MUST_NOT_GROW = ("processes", "mounts", "cgroups", "networks", "temp_files", "fds")


def measure(setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield one line; ``grown`` names every count that did not come back."""
    env = setting.make()
    with closing(env):
        tasks = task_names(env, setting.args.task or ["all"])
        play = _player(env, setting, tasks)
        for number in range(max(WARM_UPS, 2 * len(tasks))):
            play(number)
        rows = databases.census(setting)
        early, early_rss = Census.now(setting.args.places), rss_kib()
        resets, statuses, void = Samples(), dict[str, int](), 0
        for number in range(setting.rounds):
            milliseconds, status = play(number)
            resets.values_ms.append(milliseconds)
            statuses[status] = statuses.get(status, 0) + 1
            void += status == "infra_error"
            setting.tick("")
        more = databases.grown(setting, rows)
        late, late_rss = Census.now(setting.args.places), rss_kib()
        killed = _kill_trainers(setting, tasks[0])
        left = _settled(setting, tasks[0], late)
    growth = late.less(early)
    first, last = _ends(resets)
    yield setting.line(
        "soak",
        tasks=len(tasks),
        statuses=statuses,
        void=void,
        killed_trainers=killed,
        first_p95_ms=first.percentile(0.95),
        last_p95_ms=last.percentile(0.95),
        p95_drift=ratio(last.percentile(0.95), first.percentile(0.95)),
        rss_mib=[round(early_rss / 1024, 1), round(late_rss / 1024, 1)],
        growth={**growth, **more},
        left=left,
        grown=sorted(
            {*_grown(growth, left, early_rss, late_rss)}
            | {name for name, count in more.items() if count > 0}
        ),
    )


def _player(
    env: Any, setting: Setting, tasks: Sequence[str]
) -> Callable[[int], tuple[float, str]]:
    def play(number: int) -> tuple[float, str]:
        reset, options = Samples(), setting.options(tasks[number % len(tasks)])
        reset.time(lambda: env.reset(seed=number, options=options))
        return reset.values_ms[0], _outcome(env, _actions(env))

    return play


def _actions(env: Any) -> Sequence[Any]:
    with suppress(RlvrError, OSError):
        return policy_actions(env)
    return policy_actions(env, "null")


def _outcome(env: Any, actions: Sequence[Any]) -> str:
    for action in actions:
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return str((info.get("outcome") or {}).get("status", ""))
    return "unfinished"


def _ends(samples: Samples) -> tuple[Samples, Samples]:
    """Return the first and the last tenth, at least one each."""
    tenth = max(1, len(samples.values_ms) // 10)
    return Samples(samples.values_ms[:tenth]), Samples(samples.values_ms[-tenth:])


def _kill_trainers(setting: Setting, task: str) -> int:
    """Kill trainers while they are in the middle of an episode."""
    for number in range(setting.args.kills):
        with subprocess.Popen(  # ourselves
            [sys.executable, "-m", "rlvr_envs", *_trainer(setting, task, 100_000)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as child:
            if child.stdout is not None:
                child.stdout.readline()
            time.sleep(0.003 * (number % 10))
            child.send_signal(signal.SIGKILL)
    return int(setting.args.kills)


def _trainer(setting: Setting, task: str, episodes: int) -> Sequence[str]:
    args = setting.args
    words = ["run", "--env", args.env, "--policy", "null", "--group", str(episodes)]
    words += ["--task", task, "--no-record", "--json"]
    words += ["--store", str(args.places.store)]
    words += ["--run-dir", str(args.places.run)]
    words += passed_on(args)
    return words


def _settled(setting: Setting, task: str, before: Census) -> Mapping[str, int]:
    """Return what is left once a fresh trainer has swept, ended, and time was given."""
    subprocess.run(  # ourselves
        [sys.executable, "-m", "rlvr_envs", *_trainer(setting, task, 1)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=300,
    )
    deadline = time.monotonic() + _SETTLE_S
    left = Census.now(setting.args.places).less(before)
    while any(left[name] > 0 for name in _MUST_NOT_GROW):
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
        left = Census.now(setting.args.places).less(before)
    return left


def _grown(
    growth: Mapping[str, int], left: Mapping[str, int], early_rss: int, late_rss: int
) -> list[str]:
    names = {name for name in _MUST_NOT_GROW if growth[name] > 0 or left[name] > 0}
    if late_rss > early_rss * _RSS_SLACK:
        names.add("rss")
    return sorted(names)
