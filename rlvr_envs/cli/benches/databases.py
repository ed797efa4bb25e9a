"""What benches do beside an environment whose worlds are databases."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

from rlvr_envs.cli.benches.measuring import WARM_UPS, Samples, Setting
from rlvr_envs.cli.targets import task_names
from rlvr_envs.manifest import manifest
from rlvr_envs.registration import load

_SHARING = "rlvr_envs.sandbox.postgres.sharing"


def used(setting: Setting) -> bool:
    """Whether the environment's worlds are databases."""
    known = manifest()
    names = {f"{known.namespace}/{e.id}" for e in known.envs if "database" in e.kwargs}
    return setting.args.env.rpartition(":")[2] in names


def rest(setting: Setting) -> None:
    """Wait until clones stand ready: an episode takes longer than to make one."""
    if used(setting):
        load(f"{_SHARING}:rest")()


def census(setting: Setting) -> Mapping[str, int]:
    """Count databases, roles, slots and sessions; nothing where there are none."""
    counts: Mapping[str, int] = load(f"{_SHARING}:census")() if used(setting) else {}
    return counts


def grown(setting: Setting, before: Mapping[str, int]) -> Mapping[str, int]:
    """Return how much each count has grown."""
    now = census(setting)
    return {name: count - before.get(name, 0) for name, count in now.items()}


def drained(setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield a line of resets for which no clone stands ready."""
    if not used(setting):
        return
    ours = Samples()
    env = setting.make()
    with closing(env):
        task = task_names(env, setting.args.task)[0]
        for number in range(-WARM_UPS, setting.rounds):
            load(f"{_SHARING}:census")()  # drops what stands ready, and waits
            ours.time(lambda: env.reset(seed=0, options=setting.options(task)))
            if number < 0:
                ours.values_ms.clear()
            else:
                setting.tick("")
    yield setting.line("reset", task=task, cold=False, pool="drained", **ours.to_json())


def floor(setting: Setting, stack: ExitStack) -> Callable[[], None]:
    """Return what a plain clone of the task's database and a connection take."""
    env = setting.make()
    stack.callback(env.close)
    task = task_names(env, setting.args.task)[0]
    env.reset(seed=0, options=setting.options(task))
    template = env.unwrapped._world._clone.template  # noqa: SLF001 (a bench looks inside)
    cluster, count = template.cluster, itertools.count()

    def once() -> None:
        name = f"rlvr-floor-{next(count)}"
        cluster.admin.execute(
            f'CREATE DATABASE "{name}" TEMPLATE "{template.name}" STRATEGY FILE_COPY'
        )
        cluster.connect(name).close()
        cluster.discard(name)

    return once
