"""What contract tests do with an environment, in this process or in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym

TERMINAL = "rlvr/Terminal-v0"
TASK = "sum-integers"

FIVE = (
    "echo $RANDOM $$; date +%s.%N; mktemp -u",
    "python3 -c 'import random, time, uuid; "
    'print(random.random(), time.time(), uuid.uuid4(), hash("a"))\'',
    "touch /tmp/a; mkdir -p /tmp/d/e; ls -la / /tmp /proc/self/ns; stat -c '%Y %Z %d' /tmp/a",
    "cat /proc/uptime /proc/loadavg; nproc; hostname; cat /proc/sys/kernel/random/boot_id",
    "ps -eo pid,ppid,args; false",
)
"""Commands whose output depends on clock, pids, random bytes and the host."""


def bash(command: str) -> str:
    """Return the action that runs a command."""
    return json.dumps({"name": "bash", "arguments": {"command": command}})


SUBMIT = json.dumps({"name": "submit", "arguments": {}})


def run(env: gym.Env[Any, Any], command: str) -> tuple[str, dict[str, Any]]:
    """Run one command; return its observation and info."""
    observation, _, _, _, info = env.step(bash(command))
    return str(observation), info


def trace(commands: Sequence[str] = FIVE, *, seed: int = 7) -> list[Any]:
    """Return all that two episodes show: one seeded, one that follows it."""
    env = gym.make(TERMINAL, task=TASK)
    shown: list[Any] = []
    try:
        for start in (seed, None):
            shown.append(env.reset(seed=start))
            shown += [env.step(bash(command)) for command in commands]
            shown.append(env.step(SUBMIT))
    finally:
        env.close()
    return shown


def trace_elsewhere(environment: Mapping[str, str]) -> str:
    """Return the JSON of `trace` from another process."""
    program = (
        "import json, rlvr_envs; from tests.contract.worlds import trace; "
        "print(json.dumps(trace()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
