"""Throughput: resets a second, a number of environments at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rlvr_envs.cli.benches.measuring import Samples, Setting
from rlvr_envs.cli.targets import task_names


def measure(setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield one line; each slot resets on its own thread, all begin together."""
    slots = setting.args.slots
    envs = [setting.make() for _ in range(slots)]
    task = task_names(envs[0], setting.args.task)[0]
    each = max(1, setting.rounds // slots)
    gate = threading.Barrier(slots + 1)
    with ThreadPoolExecutor(slots) as threads:
        futures = [
            threads.submit(_resets, env, setting, task, each, gate) for env in envs
        ]
        gate.wait()
        began = time.perf_counter()
        samples = Samples([ms for future in futures for ms in future.result()])
        seconds = time.perf_counter() - began
    for env in envs:
        env.close()
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
    env: Any, setting: Setting, task: str, count: int, gate: threading.Barrier
) -> list[float]:
    samples = Samples()
    options = setting.options(task)
    try:
        env.reset(seed=0, options=options)
    except BaseException:
        gate.abort()
        raise
    gate.wait()
    for number in range(count):
        with samples.timing():
            env.reset(seed=number, options=options)
        setting.tick("")
    return samples.values_ms
