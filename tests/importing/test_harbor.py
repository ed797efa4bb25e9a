"""Harbor-format tasks load, convert, and are judged by our own runner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlvr_envs.errors import TaskError
from rlvr_envs.importing import bases, harbor, harbor_judge
from rlvr_envs.importing.convert import converted
from rlvr_envs.importing.folders import task_name, write_folder
from rlvr_envs.importing.trial import BUILT, INFRA, summary, trial_of
from rlvr_envs.tasks import scripts
from rlvr_envs.tasks.taskset import Taskset
from tests.importing.making import DOCKERFILE, SCRIPT, harbor_task


def test_a_task_loads_with_what_its_tests_define(tmp_path: Path) -> None:
    task = harbor.load(harbor_task(tmp_path / "one"))

    assert task.expected == ("test_outputs.py::test_the_answer_is_there",)
    assert task.runs_pytest
    assert task.tags == ("files", "text", "two-words")
    assert task.needs.pip == {"pytest"}


@pytest.mark.parametrize(
    ("part", "content", "file", "line"),
    [
        ("toml", "version = \n", "task.toml", 1),
        ("toml", "[agent]\ntimeout_sec = 'x'\n", "task.toml", 0),
        ("dockerfile", "FROM a\nnonsense here\n", "Dockerfile", 2),
        ("tests", "def test_(:\n", "test_outputs.py", 1),
        ("instruction", "  \n", "instruction.md", 0),
    ],
)
def test_a_broken_part_is_named_and_stops_no_other_task(
    tmp_path: Path, part: str, content: str, file: str, line: int
) -> None:
    harbor_task(tmp_path / "good")
    harbor_task(tmp_path / "broken", **{part: content})

    tasks, problems = harbor.load_all(harbor.find(tmp_path))

    assert [task.name for task in tasks] == ["good"]
    (problem,) = problems
    assert problem.task == "broken"
    assert problem.file.endswith(file)
    assert problem.line == line


def test_a_task_without_its_toml_is_reported(tmp_path: Path) -> None:
    harbor_task(tmp_path / "set" / "good")
    (harbor_task(tmp_path / "set" / "bare") / "task.toml").unlink()

    tasks, problems = harbor.load_all(harbor.find(tmp_path))

    assert len(tasks) == 1
    assert problems[0].task == "bare"


def test_a_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"No task\.toml"):
        harbor.find(tmp_path)


def test_classes_and_fixtures_are_counted_as_pytest_does(tmp_path: Path) -> None:
    content = (
        "import pytest\n@pytest.fixture\ndef test_data(): ...\n"
        "class TestA:\n    def test_b(self): ...\n    def helper(self): ...\n"
        "class TestC:\n    def __init__(self): ...\n    def test_d(self): ...\n"
        "def test_e(): ...\n"
    )
    task = harbor.load(harbor_task(tmp_path / "one", tests=content))

    assert task.expected == (
        "test_outputs.py::TestA::test_b",
        "test_outputs.py::test_e",
    )


def test_imports_tell_libraries_from_submissions(tmp_path: Path) -> None:
    content = "import json, yaml\nfrom solution.main import f\ndef test_a(): ...\n"
    task = harbor.load(harbor_task(tmp_path / "one", tests=content))

    assert task.test_needs == {"pyyaml"}
    assert task.imports == ("solution",)
    assert bases.untestable(task.test_needs, "science") == ("pyyaml",)


def test_a_converted_task_is_one_of_ours(tmp_path: Path) -> None:
    task = harbor.load(harbor_task(tmp_path / "Some_Task"))

    write_folder(converted(task), tmp_path / "out")
    taskset = Taskset(tmp_path / "out")
    instance = taskset.instance("some-task", 0)

    assert instance.task.image == "science"
    assert instance.instruction == task.instruction
    assert instance.task.verification.mode == "system"
    assert instance.recipe.setup[-1] == ("/bin/rm", "-rf", "/.build")
    assert [c.name for c in scripts.gold(instance).calls] == ["bash", "submit"]
    assert "tests/test_outputs.py" in instance.task.verification.manifest


def test_no_test_lies_where_the_agent_could_see_it(tmp_path: Path) -> None:
    spec = converted(harbor.load(harbor_task(tmp_path / "one")))

    laid = b"".join(item.data for item in spec.recipe.files)
    assert b"test_the_answer" not in laid
    assert b"reward" not in laid


@pytest.mark.parametrize(
    ("dockerfile", "reason"),
    [
        ("FROM alpine:3\n", "stands in"),
        (DOCKERFILE + "RUN pip install torch\n", "lacks"),
        (DOCKERFILE + "COPY absent /x\n", "has no 'absent'"),
        (DOCKERFILE + "USER app\nRUN id\n", "runs as app"),
    ],
)
def test_what_needs_another_route_says_so(
    tmp_path: Path, dockerfile: str, reason: str
) -> None:
    task = harbor.load(harbor_task(tmp_path / "one", dockerfile=dockerfile))

    with pytest.raises(TaskError, match=reason):
        converted(task)


def test_names_become_ours() -> None:
    assert task_name("R_package (v2)__x") == "r-package-v2-x"


def test_the_measures_widen() -> None:
    for narrow, wide in zip(bases.MEASURES, bases.MEASURES[1:], strict=False):
        assert narrow.apt <= wide.apt
        assert narrow.pip <= wide.pip


def _places(tmp_path: Path, script: str = SCRIPT) -> harbor_judge.Places:
    places = harbor_judge.Places(
        tmp_path / "verifier", tmp_path / "tests", tmp_path / "logs"
    )
    fixtures = places.fixtures / "tests"
    fixtures.mkdir(parents=True)
    bin_folder = Path(sys.executable).parent
    script = script.replace("/logs/", f"{places.logs}/")
    script = script.replace("pytest /tests", f"{bin_folder}/pytest {places.tests}")
    (fixtures / "test.sh").write_text(script)
    (fixtures / "test_outputs.py").write_text(
        "def test_a():\n    assert True\n\n\ndef test_b():\n    assert True\n"
    )
    (places.fixtures / "pytest.ini").write_text("[pytest]\n")
    return places


EXPECTED = '"expected": ["test_outputs.py::test_a", "test_outputs.py::test_b"]'


def _judged(places: harbor_judge.Places, tmp_path: Path) -> dict[str, str]:
    """Return the reasons of the checks that failed."""
    (places.fixtures / harbor_judge.CONFIG).write_text(
        f'{{"workdir": "/", "env": {{}}, "timeout_s": 60, {EXPECTED}}}'
    )
    rows = harbor_judge.main(places, scratch=str(tmp_path))
    return {row["name"]: row["reason"] for row in rows if not row["passed"]}


def test_the_judge_passes_what_passes(tmp_path: Path) -> None:
    assert _judged(_places(tmp_path), tmp_path) == {}


def test_files_that_lie_in_the_judges_places_are_removed(tmp_path: Path) -> None:
    places = _places(tmp_path, "#!/bin/bash\nexit 0\n")
    places.verdicts.mkdir(parents=True)
    (places.verdicts / "reward.txt").write_text("1")
    places.tests.mkdir()
    (places.tests / "conftest.py").write_text("raise SystemExit(0)")

    failed = _judged(places, tmp_path)

    assert failed["reward"] == "the reward is 0.0"
    assert not (places.tests / "conftest.py").exists()


def test_a_reward_without_its_tests_is_no_pass(tmp_path: Path) -> None:
    script = "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"

    failed = _judged(_places(tmp_path, script), tmp_path)

    assert list(failed) == ["count"]


def test_a_test_that_leaves_early_is_not_counted(tmp_path: Path) -> None:
    places = _places(tmp_path)
    (places.fixtures / "tests" / "test_outputs.py").write_text(
        "import os\n\n\ndef test_a():\n    os._exit(0)\n"
    )

    failed = _judged(places, tmp_path)

    assert "count" in failed


def test_a_skipped_test_is_no_pass(tmp_path: Path) -> None:
    places = _places(tmp_path)
    (places.fixtures / "tests" / "test_outputs.py").write_text(
        "import pytest\n\n\ndef test_a():\n    pytest.skip()\n\n\ndef test_b(): ...\n"
    )

    failed = _judged(places, tmp_path)

    assert failed["tests"] == "failed: test_outputs.py::test_a"


@pytest.mark.parametrize(
    ("name", "content", "reward"),
    [
        ("reward.txt", "1\n", 1.0),
        ("reward.txt", "0.5", 0.5),
        ("reward.txt", "nan", 0.0),
        ("reward.txt", "7", 0.0),
        ("reward.json", '{"reward": 1}', 1.0),
        ("reward.json", '{"a": 1.0, "b": 0.0}', 0.0),
        ("reward.json", '{"reward": true}', 0.0),
        ("reward.json", "[[[", 0.0),
    ],
)
def test_a_reward_is_read_strictly(
    tmp_path: Path, name: str, content: str, reward: float
) -> None:
    (tmp_path / name).write_text(content)

    assert harbor_judge.read_reward(tmp_path) == reward


def test_a_missing_program_is_a_fault_of_the_judge(tmp_path: Path) -> None:
    places = _places(tmp_path, "#!/bin/bash\nno-such-program\n")

    failed = _judged(places, tmp_path)

    assert list(failed) == ["runs"]
    rows = [{"name": "runs", "passed": False, "reason": failed["runs"]}]
    outcome = {"status": "failed", "reward": 0.0, "invariants": rows, "tamper": []}
    trial = trial_of("t", "null", {**outcome, "reason": ""}, seconds=0.0)
    assert (trial.build, trial.reward) == (INFRA, None)


def test_a_pass_of_the_null_policy_is_named() -> None:
    outcome = {
        "status": "passed",
        "reward": 1.0,
        "invariants": [],
        "tamper": [],
        "reason": "",
    }
    trial = trial_of("easy", "null", outcome, seconds=0.1)

    assert trial.build == BUILT
    assert summary([trial])["passed_tasks"] == ["easy"]


def test_the_judge_stands_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", Path(harbor_judge.__file__).read_text()],
        env={},
        capture_output=True,
        check=False,
    )

    assert b"KeyError: 'RLVR_NONCE'" in done.stderr
