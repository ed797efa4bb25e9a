"""Step: a command through the whole stack, and the same in a bare bash on a pipe."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from rlvr_envs.cli.benches.floors import BareShell
from rlvr_envs.cli.benches.measuring import (
    WARM_UPS,
    Samples,
    Setting,
    difference,
    policy_actions,
)
from rlvr_envs.cli.targets import task_names
from rlvr_envs.errors import RlvrError


def measure(setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield one line."""
    env = setting.make()
    task = task_names(env, setting.args.task)[0]
    action = _action(env, setting.args.words)
    ours, bare, cpu_ms = Samples(), Samples(), 0.0
    living = _Living(env, setting, task)
    with BareShell() as shell:
        number = -WARM_UPS
        while number < setting.rounds:
            living.sit()
            began_cpu = time.process_time()
            result = ours.time(lambda: env.step(action))
            spent_ms = (time.process_time() - began_cpu) * 1e3
            living.over = result[2] or result[3]
            if living.over:
                ours.values_ms.pop()  # it was judged too: another bench's figure
                continue
            bare.time(lambda: shell.say(setting.args.words))
            cpu_ms += spent_ms
            number += 1
            if number == 0:
                ours.values_ms.clear()
                bare.values_ms.clear()
                cpu_ms = 0.0
            elif number > 0:
                setting.tick("")
    env.close()
    yield setting.line(
        "step",
        task=task,
        command=setting.args.words,
        **ours.to_json(),
        **bare.to_json("floor_"),
        added_p50_ms=difference(ours.percentile(0.5), bare.percentile(0.5)),
        added_p95_ms=difference(ours.percentile(0.95), bare.percentile(0.95)),
        cpu_ms_per_step=round(cpu_ms / max(setting.rounds, 1), 4),
    )


class _Living:
    """Keeps an episode alive, whatever its budget of turns."""

    def __init__(self, env: Any, setting: Setting, task: str) -> None:
        self._env, self._options = env, setting.options(task)
        self.over = True

    def sit(self) -> None:
        if self.over:
            self._env.reset(seed=0, options=self._options)
            self.over = False


def _action(env: Any, command: str) -> Any:
    tools = {tool.name for tool in env.get_wrapper_attr("tool_specs")}
    if "bash" in tools:
        return {"name": "bash", "arguments": {"command": command}}
    env.reset(seed=0)
    with suppress(RlvrError, OSError):
        return policy_actions(env)[0]
    return env.action_space.sample()
