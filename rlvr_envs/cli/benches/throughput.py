"""Throughput: resets a second, a number of environments at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

from rlvr_envs.cli.benches.measuring import Samples, Setting
from rlvr_envs.cli.targets import task_names


def measure(setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield one line; each slot resets on its own thread, all of them warmed up."""
    slots, stack = setting.args.slots, ExitStack()
    with stack:
        envs = [stack.enter_context(closing(setting.make())) for _ in range(slots)]
        task = task_names(envs[0], setting.args.task)[0]
        threads = stack.enter_context(ThreadPoolExecutor(slots))
        options = setting.options(task)
        list(threads.map(lambda env: env.reset(seed=0, options=options), envs))
        each = max(1, setting.rounds // slots)
        began = time.perf_counter()
        futures = [threads.submit(_resets, env, setting, options, each) for env in envs]
        samples = Samples([ms for future in futures for ms in future.result()])
        seconds = time.perf_counter() - began
    done = each * slots
    line = setting.line(
        "throughput",
        task=task,
        slots=slots,
        per_second=round(done / seconds, 2),
        **samples.to_json(),
    )
    yield {**line, "n": done}


def _resets(
    env: Any, setting: Setting, options: dict[str, Any], count: int
) -> list[float]:
    samples = Samples()
    for number in range(count):
        with samples.timing():
            env.reset(seed=number, options=options)
        setting.tick("")
    return samples.values_ms
