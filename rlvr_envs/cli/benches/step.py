"""Step: a command through the whole stack, and the same in a bare bash on a pipe."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from rlvr_envs.cli.benches.floors import BareShell
from rlvr_envs.cli.benches.measuring import (
    WARM_UPS,
    Samples,
    Setting,
    difference,
)
from rlvr_envs.cli.targets import task_names
from rlvr_envs.errors import CallerError
from rlvr_envs.records import ToolCall, ToolCategory
from rlvr_envs.tools.parsing import parse_call

_MOST_SAMPLES = 100


def measure(setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield one line."""
    env = setting.make()
    with closing(env):
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
                    living.need_more_than_one_turn()
                    continue
                living.turns += 1
                bare.time(lambda: shell.say(setting.args.words))
                cpu_ms += spent_ms
                number += 1
                if number == 0:
                    ours.values_ms.clear()
                    bare.values_ms.clear()
                    cpu_ms = 0.0
                elif number > 0:
                    setting.tick("")
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
        self.over, self.turns = True, 0

    def sit(self) -> None:
        """Begin an episode, if the last one is over."""
        if self.over:
            self._env.reset(seed=0, options=self._options)
            self.over, self.turns = False, 0

    def need_more_than_one_turn(self) -> None:
        """Refuse an action that ends every episode at once: nothing can be timed."""
        if self.turns == 0:
            raise CallerError(
                "Every episode ends with its first step; no step can be timed.",
                remedy="name a task or an environment whose budget allows more turns",
            )


def _action(env: Any, command: str) -> Any:
    specs = env.get_wrapper_attr("tool_specs")
    if "bash" in {tool.name for tool in specs}:
        return {"name": "bash", "arguments": {"command": command}}
    ending = {tool.name for tool in specs if tool.category is ToolCategory.TERMINAL}
    samples = (env.action_space.sample() for _ in range(_MOST_SAMPLES))
    for call in filter(None, map(_parsed, samples)):
        if call.name not in ending:
            return call.to_json()
    raise CallerError(
        "No sampled call leaves the episode alive.", remedy="name another environment"
    )


def _parsed(action: Any) -> ToolCall | None:
    call = parse_call(action)
    return call if isinstance(call, ToolCall) else None
