from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.cli.lint_rewards import task_cases
from rlvr_envs.envs.terminal.tools import TOOLS
from rlvr_envs.rewards.lint import lint
from rlvr_envs.rewards.terminal_rules import terminal_book
from rlvr_envs.tasks.taskset import Taskset
from tests.cli.conftest import TOY, Call

TASK = """\
title: Make a file
difficulty: easy
tags: [files]
workdir: /app
epoch: "2024-01-15T09:00:00Z"
version: 1
verification:
  mode: artifacts
  artifacts: [/app]
  writes: [/app/**]
  checks:
    - kind: file_content
      name: made
      options: {path: /app/a.py, equals: x}
"""
GENERATOR = """\
from rlvr_envs.tasks.task import Recipe


def generate(rng, number):
    return Recipe()
"""
HASTY = """\
- bash: {command: "echo x > /app/a.py"}
- submit: {}
"""
CAREFUL = """\
- name: careful
  calls:
    - bash: {command: "echo x > /app/a.py && python3 /app/a.py"}
    - submit: {}
"""


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks" / "make-file"
    folder.mkdir(parents=True)
    files = {
        "task.yaml": TASK,
        "generator.py": GENERATOR,
        "instruction.md": "Make it.\n",
        "gold.yaml": HASTY,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return tmp_path / "tasks"


def test_it_names_the_rule_and_what_it_breaks(rlvr: Call, tasks: Path) -> None:
    said = rlvr(*("lint-rewards", tasks, "--env", TOY, "--book", "terminal", "--json"))

    finding, counts = said.lines
    assert said.status == 1
    assert (finding["subject"], finding["breaks"]) == ("untested_edit", "reachable")
    assert "make-file" in finding["detail"]
    assert counts == {"book": "terminal", "rules": 3, "tasks": 1, "findings": 1}


def test_a_compliant_twin_satisfies_it(rlvr: Call, tasks: Path) -> None:
    (tasks / "make-file" / "twins.yaml").write_text(CAREFUL)

    said = rlvr("lint-rewards", tasks, "--env", TOY, "--book", "terminal", "--json")

    assert said.status == 0
    assert said.lines[-1]["findings"] == 0


def test_people_get_a_table_and_a_count(rlvr: Call, tasks: Path) -> None:
    said = rlvr("lint-rewards", tasks, "--env", TOY, "--book", "terminal")

    assert "untested_edit" in said.out
    assert "Book terminal. Rules: 3. Tasks: 1. Findings: 1." in said.out
    assert "{" not in said.out


def test_without_a_book_of_its_own_an_environment_has_the_generic_one(
    rlvr: Call, tasks: Path
) -> None:
    said = rlvr("lint-rewards", tasks, "--env", TOY, "--json")

    assert said.lines[-1]["book"] == "generic"


@pytest.mark.parametrize(
    ("mode", "book"),
    [("artifacts", "terminal"), ("system", "terminal"), ("database", "sql")],
)
def test_the_book_is_that_of_the_environment_whose_tasks_are_judged_so(
    rlvr: Call, tasks: Path, mode: str, book: str
) -> None:
    file = tasks / "make-file" / "task.yaml"
    file.write_text(file.read_text().replace("mode: artifacts", f"mode: {mode}"))

    said = rlvr("lint-rewards", tasks, "--json")

    assert said.lines[-1]["book"] == book


def test_the_tasks_of_the_package_have_the_book_of_their_environment(
    rlvr: Call,
) -> None:
    said = rlvr("lint-rewards", "rlvr_envs.envs.sql_rest.tasks", "--json")

    assert said.status == 0
    assert said.lines[-1]["book"] == "sql"


def test_a_folder_without_a_task_is_misuse(rlvr: Call, tmp_path: Path) -> None:
    said = rlvr("lint-rewards", tmp_path)

    assert said.status == 2
    assert "holds no task" in said.err


def test_a_taskset_that_is_not_there_is_told(rlvr: Call, tmp_path: Path) -> None:
    said = rlvr("lint-rewards", tmp_path / "none", "--env", TOY)

    assert said.status == 2
    assert "is missing" in said.err


def test_a_broken_task_is_told_with_its_file(rlvr: Call, tasks: Path) -> None:
    (tasks / "make-file" / "gold.yaml").write_text("- submit\n")

    said = rlvr("lint-rewards", tasks, "--env", TOY)

    assert said.status == 2
    assert "gold.yaml" in said.err


def test_the_terminal_tasks_keep_the_design_rules() -> None:
    categories = {tool.spec.name: tool.spec.category for tool in TOOLS}
    cases = tuple(task_cases(Taskset("rlvr_envs.envs.terminal.tasks"), categories))

    assert len(cases) >= 12
    assert lint(terminal_book(), cases) == ()
