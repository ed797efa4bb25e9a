from __future__ import annotations

import pytest

from rlvr_envs.tasks.task import Task
from rlvr_envs.tasks.taskset import Taskset
from rlvr_envs.verifiers import validate_options

TASKS = [
    taskset.get(name)
    for taskset in map(
        Taskset, ("rlvr_envs.envs.terminal.tasks", "rlvr_envs.envs.sql_rest.tasks")
    )
    for name in taskset.names
]


@pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])
def test_every_bundled_task_has_good_options(task: Task) -> None:
    for check in task.verification.checks:
        validate_options(check.kind, check.options)
