from __future__ import annotations

import pytest

from rlvr_envs.tasks.taskset import Taskset
from rlvr_envs.verifiers import validate_options

TASKS = Taskset("rlvr_envs.envs.terminal.tasks")


@pytest.mark.parametrize("name", TASKS.names)
def test_every_bundled_task_has_good_options(name: str) -> None:
    for check in TASKS.get(name).verification.checks:
        validate_options(check.kind, check.options)
