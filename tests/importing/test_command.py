"""`rlvr import harbor`: figures, folders, and a seeded sample that is really built."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.cli import main
from rlvr_envs.errors import SnapshotError
from rlvr_envs.records import Places, ToolCall
from rlvr_envs.rollouts.replay import make
from rlvr_envs.snapshots.store import ImageStore
from rlvr_envs.tasks.scripts import gold
from rlvr_envs.tasks.taskset import Taskset
from tests.importing.making import DOCKERFILE, harbor_task


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    harbor_task(folder / "counts_lines")
    harbor_task(folder / "is_done_already", tests="def test_nothing():\n    pass\n")
    harbor_task(folder / "does_not_build", dockerfile=DOCKERFILE + "RUN false\n")
    harbor_task(folder / "wants_yaml", tests="import yaml\n\n\ndef test_x(): ...\n")
    harbor_task(folder / "wants_jq", dockerfile=DOCKERFILE + "RUN apt install foo\n")
    harbor_task(folder / "broken", dockerfile="FROM\n")
    return folder


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["import", "harbor", *words, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_figures_come_first_and_problems_are_named(
    tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, problem = _run(capsys, str(tasks))

    assert (report["folders"], report["loaded"], report["problems"]) == (6, 5, 1)
    assert report["needs_only"] == {
        "python_only": 4,
        "essential": 4,
        "base_system": 4,
    }
    assert (problem["problem"], problem["line"]) == ("broken", 1)


def test_named_tasks_are_written(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"

    _run(capsys, str(tasks), "--out", str(out), "--tasks", "counts_lines")

    assert Taskset(out).names == ("counts-lines",)


def test_a_sample_is_the_same_for_a_seed(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = []
    for name in ("one", "two"):
        words = [str(tasks), "--out", str(tmp_path / name), "--sample", "2"]
        _run(capsys, *words)
        drawn.append(Taskset(tmp_path / name).names)

    assert drawn[0] == drawn[1]
    assert len(drawn[0]) <= 2


def test_an_unknown_name_is_refused(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--out", str(tmp_path / "out"), "--tasks", "none"]

    assert main(["import", "harbor", str(tasks), *words]) == 2
    assert "'none'" in capsys.readouterr().err


def test_an_absent_builder_names_the_remedy(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--out", str(tmp_path / "out"), "--builder", "docker"]
    nobody = ["--docker-url", f"unix://{tmp_path}/none"]

    assert main(["import", "harbor", str(tasks), *words, *nobody]) == 2
    assert "docker.io" in capsys.readouterr().err


@pytest.mark.usefixtures("namespaces")
def test_the_null_policy_shows_what_each_task_is(
    tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        ImageStore(Places()).layer("science")
    except SnapshotError as error:
        pytest.skip(f"the science image is not there: {error}")

    lines = _run(capsys, str(tasks), "--null")

    found = {line["task"]: line for line in lines if "task" in line}
    assert found["counts-lines"]["reward"] == 0.0
    assert found["counts-lines"]["build"] == "built"
    assert found["is-done-already"]["status"] == "passed"
    assert found["does-not-build"]["build"] == "not_built"
    last = lines[-1]
    assert last["passed_tasks"] == ["is-done-already"]
    assert (last["built"], last["not_built"], last["infra"]) == (2, 2, 1)


FORGERY = """
mkdir -p /logs/verifier /tests
echo 1 > /logs/verifier/reward.txt
echo 1 > /logs/verifier/reward.json
printf 'def pytest_collection_modifyitems(items): items.clear()\\n' > /conftest.py
printf '[pytest]\\naddopts = --collect-only\\n' > /pytest.ini
echo 'exit 0' > /tests/test.sh
(while :; do echo 1 > /logs/verifier/reward.txt; sleep 0.01; done) > /dev/null 2>&1 &
"""


@pytest.mark.usefixtures("namespaces")
def test_the_reference_solution_passes_and_a_forged_reward_does_not(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        ImageStore(Places()).layer("science")
    except SnapshotError as error:
        pytest.skip(f"the science image is not there: {error}")
    out = tmp_path / "out"
    _run(capsys, str(tasks), "--out", str(out), "--tasks", "counts_lines")
    solution = gold(Taskset(out).instance("counts-lines", 0))
    forged = (ToolCall("bash", {"command": FORGERY}), ToolCall("submit"))

    found = [_played(out, calls) for calls in (solution.calls, forged)]

    assert (found[0]["status"], found[0]["reward"]) == ("passed", 1.0)
    assert found[1]["status"] in ("failed", "tampered")
    assert found[1]["reward"] == 0.0


def _played(out: Path, calls: Sequence[ToolCall]) -> dict[str, Any]:
    env = make("rlvr/Terminal-v0", {"tasks": str(out)})
    info: dict[str, Any] = {}
    try:
        env.reset(seed=0, options={"task": "counts-lines"})
        for call in calls:
            _, _, _, _, info = env.step(call.to_json())
    finally:
        env.close()
    outcome: dict[str, Any] = info["outcome"]
    return outcome
