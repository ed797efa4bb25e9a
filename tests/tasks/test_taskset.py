"""Tasksets list without loading, and say what was near an unknown name."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.errors import TaskError
from rlvr_envs.tasks.taskset import KEPT_INSTANCES, Taskset
from tests.tasks.builders import write_task


def test_a_broken_task_does_not_hinder_its_neighbours(tmp_path: Path) -> None:
    write_task(tmp_path)
    write_task(tmp_path, name="broken", changed={"task.yaml": "nonsense"})
    tasks = Taskset(tmp_path)

    assert tasks.names == ("broken", "hello")
    assert tasks.get("hello").title == "Say hello"
    with pytest.raises(TaskError):
        tasks.get("broken")


def test_an_unknown_task_says_what_was_near(tmp_path: Path) -> None:
    write_task(tmp_path)

    with pytest.raises(ValueError, match=r"no task 'helo' in .*Did you mean hello\?"):
        Taskset(tmp_path).get("helo")


def test_an_unknown_task_that_is_near_nothing_lists_all(tmp_path: Path) -> None:
    write_task(tmp_path)

    with pytest.raises(ValueError, match=r"Known: hello\."):
        Taskset(tmp_path).get("zzz")


@pytest.mark.parametrize("source", ["no.such.package", "nowhere", "/nowhere/at/all"])
def test_a_taskset_that_is_not_there_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"missing|neither a package nor a folder"):
        Taskset(source)


def test_a_package_is_found_by_name() -> None:
    tasks = Taskset("rlvr_envs.envs.terminal.tasks")

    assert "sum-integers" in tasks
    assert len(tasks) == len(list(tasks)) >= 14


def test_instances_are_remembered_but_not_for_ever(tmp_path: Path) -> None:
    write_task(tmp_path)
    tasks = Taskset(tmp_path)
    first = tasks.instance("hello", 0)

    assert tasks.instance("hello", 0) is first
    for number in range(1, KEPT_INSTANCES + 1):
        tasks.instance("hello", number)
    again = tasks.instance("hello", 0)
    assert again is not first
    assert again.digest == first.digest
