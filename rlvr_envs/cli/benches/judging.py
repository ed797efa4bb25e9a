"""Verify: from the submit to the verdict, and plain pytest in a fresh sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from rlvr_envs.cli.benches.measuring import (
    WARM_UPS,
    Samples,
    Setting,
    policy_actions,
    ratio,
)
from rlvr_envs.cli.targets import task_names, taskset
from rlvr_envs.errors import MissingRequirement

FOUR_TESTS = "\n".join(
    f"def test_{n}():\n    assert sum(range({n})) == {n * (n - 1) // 2}"
    for n in range(2, 6)
)
PLAIN = (
    f"mkdir -p /tmp/four && cd /tmp/four && cat > test_four.py <<'E'\n{FOUR_TESTS}\nE"
)
RUN = "cd /tmp/four && python3 -m pytest -q test_four.py"


def measure(setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield one line; parts are what the environment's own timings name."""
    env = setting.make()
    with closing(env):
        task = _task(env, setting)
        options = setting.options(task)
        ours, plain = Samples(), Samples()
        parts: dict[str, Samples] = {}
        status, reward = "", 0.0
        for number in range(-WARM_UPS, setting.rounds):
            env.reset(seed=0, options=options)
            *work, submit = policy_actions(env)
            for action in work:
                env.step(action)
            with ours.timing():
                result = env.step(submit)
            outcome = result[4].get("outcome") or {}
            status, reward = (
                str(outcome.get("status", "")),
                float(outcome.get("reward", 0)),
            )
            _add_parts(parts, env)
            _plain_pytest(env, options, plain)
            if number < 0:
                for samples in (ours, plain, *parts.values()):
                    samples.values_ms.clear()
            else:
                setting.tick("")
    yield setting.line(
        "verify",
        task=task,
        status=status,
        reward=reward,
        **ours.to_json(),
        **plain.to_json("floor_"),
        floor_ratio=ratio(ours.percentile(0.5), plain.percentile(0.5)),
        parts={name: samples.to_json() for name, samples in sorted(parts.items())},
    )


def _task(env: Any, setting: Setting) -> str:
    if setting.args.task:
        return task_names(env, setting.args.task)[0]
    known = taskset(env)
    for name in known.names:
        if any(check.kind == "pytest" for check in known.get(name).verification.checks):
            return str(name)
    raise MissingRequirement(
        "No task here is judged by pytest.", remedy="name one with --task"
    )


def _add_parts(parts: dict[str, Samples], env: Any) -> None:
    timings = env.get_wrapper_attr("timings")
    for name, seconds in timings.items():
        parts.setdefault(name, Samples()).values_ms.append(seconds * 1e3)


def _plain_pytest(env: Any, options: dict[str, Any], plain: Samples) -> None:
    """Time plain pytest on four tests in a fresh sandbox that has it."""
    tools = {tool.name for tool in env.get_wrapper_attr("tool_specs")}
    if "bash" not in tools:
        return
    env.reset(seed=0, options=options)
    env.step({"name": "bash", "arguments": {"command": PLAIN}})
    call = {"name": "bash", "arguments": {"command": RUN}}
    info = plain.time(lambda: env.step(call))[4]
    if info.get("exit_code") != 0:
        plain.values_ms.pop()
