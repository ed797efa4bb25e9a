"""An instance is a function of task, version and number, and of nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlvr_envs.errors import TaskError
from rlvr_envs.tasks.instances import hidden_json, instantiate
from rlvr_envs.tasks.loader import load_task
from rlvr_envs.tasks.task import Instance
from tests.tasks.builders import FILES, with_line, write_task

DIGESTS = """
import json
from rlvr_envs.tasks.taskset import Taskset
tasks = Taskset("rlvr_envs.envs.terminal.tasks")
print(json.dumps({name: tasks.instance(name, 3).digest for name in tasks}))
"""


def made(
    tmp_path: Path, number: int = 0, changed: dict[str, str | None] | None = None
) -> Instance:
    return instantiate(load_task(write_task(tmp_path, changed=changed)), number)


def test_instances_agree_between_processes() -> None:
    outputs = set()
    for seed, zone in (("1", "UTC"), ("2", "Asia/Kathmandu")):
        env = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone}
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS], env=env, capture_output=True, check=True
        )
        outputs.add(done.stdout)

    assert len(outputs) == 1
    assert len(json.loads(outputs.pop())) >= 14


def test_another_number_is_another_instance(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path))
    instances = [instantiate(task, number) for number in range(20)]

    assert len({instance.digest for instance in instances}) == 20
    assert len({instance.instruction for instance in instances}) > 3


def test_the_judges_files_move_hidden_inputs_and_nothing_else(tmp_path: Path) -> None:
    first = made(tmp_path / "a")
    second = made(tmp_path / "b", changed={"verifier/test_it.py": "# other\n"})

    assert first.recipe.files == second.recipe.files
    assert first.recipe.hidden["secret"] != second.recipe.hidden["secret"]
    assert first.digest != second.digest


@pytest.mark.parametrize("file", ["gold.yaml", "cheats.yaml", "twins.yaml"])
def test_scripts_are_no_part_of_the_digest(tmp_path: Path, file: str) -> None:
    changed: dict[str, str | None] = {file: FILES[file] + "# a comment\n"}

    assert made(tmp_path / "a").digest == made(tmp_path / "b", changed=changed).digest


@pytest.mark.parametrize("file", ["task.yaml", "instruction.md", "generator.py"])
def test_sources_are_part_of_the_digest(tmp_path: Path, file: str) -> None:
    changed: dict[str, str | None] = {file: FILES[file] + "# a comment\n"}

    assert made(tmp_path / "a").digest != made(tmp_path / "b", changed=changed).digest


def test_placeholders_are_filled_and_braces_stay(tmp_path: Path) -> None:
    instance = made(tmp_path)
    word = instance.recipe.values["word"]

    assert (
        instance.instruction == f"Write {word} to\n`/app/out.txt`; braces stay: {{}}.\n"
    )


@pytest.mark.parametrize("piece", ["{wrod}", "{", "}", "{Word}", "{word!r}"])
def test_a_placeholder_without_a_value_is_named(tmp_path: Path, piece: str) -> None:
    changed = with_line("instruction.md", "`/app/out.txt`", piece)

    with pytest.raises(TaskError, match=r"instruction\.md:2: The placeholder"):
        made(tmp_path, changed=changed)


GENERATORS = {
    "syntax": ("def generate(rng, number)\n    pass\n", 1, "SyntaxError"),
    "exception": ("def generate(rng, number):\n    return 1 / 0\n", 2, "ZeroDivisionError"),
    "nothing": ("x = 1\n", 0, "KeyError: 'generate'"),
    "no recipe": ("def generate(rng, number):\n    return {}\n", 0, "returned no Recipe"),
    "relative": (
        "from rlvr_envs.tasks.task import *\n"
        "def generate(rng, number):\n    return Recipe(files=(FileSpec('app/x'),))\n",
        0, "no plain absolute path",
    ),
    "upward": (
        "from rlvr_envs.tasks.task import *\n"
        "def generate(rng, number):\n    return Recipe(files=(FileSpec('/app/../x'),))\n",
        0, "no plain absolute path",
    ),
    "no JSON": (
        "from rlvr_envs.tasks.task import *\n"
        "def generate(rng, number):\n    return Recipe(hidden={'x': rng.integers(3)})\n",
        0, "hidden is no plain JSON",
    ),
    "not finite": (
        "from rlvr_envs.tasks.task import *\n"
        "def generate(rng, number):\n    return Recipe(hidden={'x': float('nan')})\n",
        0, "hidden is no plain JSON",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GENERATORS.values(), ids=GENERATORS.keys())
def test_a_generator_that_fails_is_named(
    tmp_path: Path, case: tuple[str, int, str]
) -> None:
    source, line, message = case

    with pytest.raises(TaskError) as caught:
        made(tmp_path, changed={"generator.py": source})

    assert message in str(caught.value)
    assert caught.value.file.name == "generator.py"
    assert caught.value.line == line


def test_a_negative_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        made(tmp_path, -1)


def test_hidden_data_is_canonical_json(tmp_path: Path) -> None:
    recipe = made(tmp_path).recipe

    assert json.loads(hidden_json(recipe)) == recipe.hidden
    assert hidden_json(recipe) == hidden_json(made(tmp_path / "again").recipe)
