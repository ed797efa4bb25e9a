"""Reset: the last episode torn down, a new one restored, its observation in hand.

Cold figures come from fresh processes, each on an instance that was never built.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rlvr_envs.cli.benches import databases
from rlvr_envs.cli.benches.floors import SyscallFloor, docker_once
from rlvr_envs.cli.benches.measuring import WARM_UPS, Samples, Setting, ballast, ratio
from rlvr_envs.cli.targets import passed_on, task_names
from rlvr_envs.errors import MissingRequirement, WorldError

_COLD_INSTANCE = 1_000_000


def measure(setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield the warm line, then the cold one."""
    if setting.args.cold_child:
        yield _cold_child(setting)
        return
    yield _warm(setting)
    yield from databases.drained(setting)
    if setting.args.cold:
        yield _cold(setting)


def _warm(setting: Setting) -> dict[str, Any]:
    weight = ballast(setting.args.ballast_mib)
    env = setting.make()
    task = task_names(env, setting.args.task)[0]
    options, word = setting.options(task), setting.args.words
    ours, first = Samples(), Samples()
    with ExitStack() as stack:
        stack.callback(env.close)
        others, notes = _others(setting, stack)
        for number in range(-WARM_UPS, setting.rounds):
            databases.rest(setting)
            with ours.timing():
                env.reset(seed=number + 100, options=options)
            first.time(lambda: _first_step(env, word))
            for samples, act in others.values():
                samples.values_ms.append(act())
            if number < 0:
                _forget(ours, first, *(samples for samples, _ in others.values()))
            else:
                setting.tick("")
    facts = {**ours.to_json(), **first.to_json("first_step_")}
    for name, (samples, _) in others.items():
        facts |= samples.to_json(f"{name}_")
        ours_to_it = ratio(ours.percentile(0.5), samples.percentile(0.5))
        facts[f"{name}_ratio"] = ours_to_it
    facts = {"floor_p50_ms": None, "docker_p50_ms": None, **facts, **notes}
    return setting.line(
        "reset", task=task, cold=False, ballast_mib=len(weight), **facts
    )


def _forget(*all_samples: Samples) -> None:
    for samples in all_samples:
        samples.values_ms.clear()


def _first_step(env: Any, command: str) -> None:
    names = {tool.name for tool in env.get_wrapper_attr("tool_specs")}
    if "bash" in names:
        env.step({"name": "bash", "arguments": {"command": command}})


Others = dict[str, tuple[Samples, Callable[[], float]]]


def _others(setting: Setting, stack: ExitStack) -> tuple[Others, dict[str, str]]:
    """Return what runs in turn with ours, and why something does not."""
    args = setting.args
    others: Others = {}
    notes: dict[str, str] = {}
    if databases.used(setting):
        once = databases.floor(setting, stack)
        return {"floor": (Samples(), lambda: _timed(once))}, {}
    try:
        floor = stack.enter_context(SyscallFloor(base_root(setting)))
        floor.once()
        others["floor"] = (Samples(), floor.once)
    except MissingRequirement as error:
        notes["floor_note"] = str(error)
    try:
        run = docker_once(args.docker_host, args.docker_image, base_root(setting))
        others["docker"] = (Samples(), lambda: _timed(run))
    except MissingRequirement as error:
        notes["docker_note"] = str(error)
    return others, notes


def _timed(act: Callable[[], Any]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1e3


def base_root(setting: Setting) -> Path:
    """Return the base image's root, or the host's own where there is none."""
    from rlvr_envs.snapshots.store import ImageStore  # noqa: PLC0415  # heavy

    if setting.args.floor_root:
        return Path(setting.args.floor_root)
    store = ImageStore(setting.args.places)
    try:
        return store.root(store.image("base"))
    except WorldError:
        return Path("/")


def _cold(setting: Setting) -> dict[str, Any]:
    samples, imports, makes = Samples(), Samples(), Samples()
    for number in range(setting.args.cold):
        line = _child(setting, _COLD_INSTANCE + time.monotonic_ns() % 10**9 + number)
        samples.values_ms.append(line["reset_ms"])
        imports.values_ms.append(line["import_ms"])
        makes.values_ms.append(line["make_ms"])
    facts = {
        **samples.to_json(),
        "import_p50_ms": imports.percentile(0.5),
        "make_p50_ms": makes.percentile(0.5),
    }
    line = setting.line("reset", task=setting.args.task, cold=True, **facts)
    return {**line, "n": setting.args.cold}


def _child(setting: Setting, instance: int) -> dict[str, Any]:
    args = setting.args
    words = ["bench", "reset", "--cold-child", "--json", "--env", args.env]
    words += ["--instance", str(instance), "--store", str(args.places.store)]
    words += ["--run-dir", str(args.places.run)]
    words += passed_on(args)
    words += [part for task in args.task or () for part in ("--task", task)]
    done = subprocess.run(  # ourselves
        [sys.executable, "-m", "rlvr_envs", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode != 0:
        raise MissingRequirement(
            f"A cold reset failed: {done.stderr.strip()}",
            remedy="mend that, or leave it out by --cold 0",
        )
    line: dict[str, Any] = json.loads(done.stdout)
    return line


def _cold_child(setting: Setting) -> dict[str, Any]:
    imports, makes, resets = Samples(), Samples(), Samples()
    with imports.timing():
        import gymnasium as gym  # noqa: PLC0415  # what is timed

        del gym
    env = makes.time(setting.make)
    try:
        task = task_names(env, setting.args.task)[0]
        resets.time(lambda: env.reset(seed=0, options=setting.options(task)))
    finally:
        env.close()
    return setting.line(
        "reset-cold-child",
        import_ms=imports.values_ms[0],
        make_ms=makes.values_ms[0],
        reset_ms=resets.values_ms[0],
    )
