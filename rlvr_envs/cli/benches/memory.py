"""Memory: what an idle sandbox costs, many of them alive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlvr_envs.cli.benches.census import Census
from rlvr_envs.cli.benches.measuring import Samples, Setting, memory_kib, rss_kib
from rlvr_envs.cli.targets import task_names


def measure(setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield one line; the first sandbox pays for what all share and is not counted."""
    first = setting.make()
    task = task_names(first, setting.args.task)[0]
    options = setting.options(task)
    first.reset(seed=0, options=options)
    census = Census.now(setting.args.places)
    available, rss = memory_kib("MemAvailable"), rss_kib()
    alive, resets = [], Samples()
    try:
        for number in range(setting.rounds):
            env = setting.make()
            alive.append(env)
            with resets.timing():
                env.reset(seed=number, options=options)
            setting.tick("")
        used, trainer = available - memory_kib("MemAvailable"), rss_kib() - rss
        each = Census.now(setting.args.places).less(census)
    finally:
        for env in [*alive, first]:
            env.close()
    count = max(len(alive), 1)
    yield setting.line(
        "memory",
        task=task,
        alive=len(alive),
        kib_per_sandbox=round(used / count, 1),
        trainer_kib_per_sandbox=round(trainer / count, 1),
        per_sandbox={name: round(n / count, 2) for name, n in each.items()},
        **resets.to_json("reset_"),
    )
