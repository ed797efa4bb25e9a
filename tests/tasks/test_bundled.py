"""What holds for every bundled task, without a sandbox."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlvr_envs.manifest import manifest
from rlvr_envs.tasks.instances import hidden_json, instantiate
from rlvr_envs.tasks.loader import files_beneath
from rlvr_envs.tasks.scripts import cheats, gold, twins
from rlvr_envs.tasks.task import Task
from rlvr_envs.tasks.taskset import Taskset
from rlvr_envs.verifiers.kinds import validate_options

CHECKOUT = Path(__file__).parents[2]
TASKSETS = {
    entry.id: Taskset(entry.tasks, validate=validate_options)
    for entry in manifest().envs
}
NAMES = [(env, name) for env, tasks in TASKSETS.items() for name in tasks.names]

every_task = pytest.mark.parametrize(("env", "name"), NAMES)


@every_task
def test_a_task_loads_with_all_its_scripts(env: str, name: str) -> None:
    instance = TASKSETS[env].instance(name, 0)

    assert gold(instance).calls[-1].name == "submit"
    assert len(cheats(instance)) >= 2
    assert len(twins(instance)) >= 1


@pytest.mark.parametrize("env", TASKSETS)
def test_tasks_differ_in_kind_and_difficulty(env: str) -> None:
    tasks = [TASKSETS[env].get(name) for name in TASKSETS[env]]

    assert len(tasks) >= 14
    assert {task.difficulty for task in tasks} == {"easy", "medium", "hard"}
    assert len({tag for task in tasks for tag in task.tags}) >= 20


@every_task
def test_instances_differ_by_number(env: str, name: str) -> None:
    instances = [TASKSETS[env].instance(name, number) for number in range(4)]

    assert len({instance.digest for instance in instances}) == 4
    assert len({hidden_json(instance.recipe) for instance in instances}) == 4


@every_task
@settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(number=st.integers(min_value=0, max_value=2**31))
def test_a_generator_is_pure(env: str, name: str, number: int) -> None:
    task = TASKSETS[env].get(name)

    assert instantiate(task, number) == instantiate(task, number)


def artifacts_of(task: Task) -> list[str]:
    named = [check.options.get("path") for check in task.verification.checks]
    return [path for path in (*task.verification.artifacts, *named) if path]


@every_task
def test_the_instruction_names_what_is_judged(env: str, name: str) -> None:
    instance = TASKSETS[env].instance(name, 0)

    for path in artifacts_of(instance.task):
        assert path in instance.instruction, path


@every_task
def test_what_the_judge_knows_is_not_in_the_image(env: str, name: str) -> None:
    instance = TASKSETS[env].instance(name, 0)
    recipe = instance.recipe
    secret = hidden_json(recipe)

    assert secret.decode() not in recipe.database
    for spec in recipe.files:
        assert secret not in spec.data
        assert not spec.path.startswith(("/verifier", "/submission", "/tests"))
    assert not any("hidden" in part for command in recipe.setup for part in command)


@every_task
def test_a_wheel_would_carry_every_file(env: str, name: str) -> None:
    files = dict(files_beneath(TASKSETS[env].get(name).folder))

    assert all(not path.is_symlink() for path in files.values())
    assert {"task.yaml", "instruction.md", "gold.yaml", "cheats.yaml"} <= set(files)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel of this checkout."""
    pytest.importorskip("build")
    place = tmp_path_factory.mktemp("wheel")
    left_out = shutil.ignore_patterns(
        ".git",
        ".venv",
        "__pycache__",
        "build",
        "*.egg-info",
        ".*_cache",
        "runs",
        "tests",
    )
    shutil.copytree(CHECKOUT, place / "source", symlinks=True, ignore=left_out)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", place],
        cwd=place / "source", capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode and "setuptools" in done.stdout + done.stderr:
        pytest.skip(f"this setuptools cannot build it: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr[-2000:]
    (made,) = place.glob("*.whl")
    with zipfile.ZipFile(made) as pack:
        pack.extractall(place / "unpacked")
    return place / "unpacked"


@pytest.mark.parametrize("env", TASKSETS)
def test_an_installed_task_is_the_checkouts(wheel: Path, env: str) -> None:
    tasks = TASKSETS[env]
    place = wheel / tasks.folder.relative_to(CHECKOUT)
    installed = Taskset(place)

    assert installed.names == tasks.names
    for name in installed:
        ours, theirs = tasks.instance(name, 0), installed.instance(name, 0)
        assert ours.digest == theirs.digest
        assert (gold(ours), cheats(ours), twins(ours)) == (
            gold(theirs),
            cheats(theirs),
            twins(theirs),
        )
    assert (place.parent / "attacks.yaml").is_file()
