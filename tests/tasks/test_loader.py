"""A task folder becomes a task, or an error that names file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.errors import TaskError
from rlvr_envs.records import JsonObject
from rlvr_envs.tasks.loader import load_task
from tests.tasks.builders import FILES, with_line, write_task

BROKEN = {
    "an unknown key": (with_line("task.yaml", "budget: {turns: 5}", "speed: 3"), "task.yaml:7", "'speed' is unknown"),
    "an unknown key within": (with_line("task.yaml", "{turns: 5}", "{turnes: 5}"), "task.yaml:7", "'turnes' is unknown; known are seconds"),
    "a wrong type": (with_line("task.yaml", "version: 1", "version: one"), "task.yaml:6", "version is wrong"),
    "a yes for a number": (with_line("task.yaml", "version: 1", "version: true"), "task.yaml:6", "version is wrong"),
    "an unknown difficulty": (with_line("task.yaml", "easy", "fiendish"), "task.yaml:2", "'fiendish' is not one of"),
    "a missing key": (with_line("task.yaml", "title: Say hello\n", ""), "task.yaml:1", "lacks the key 'title'"),
    "no checks": (
        {"task.yaml": FILES["task.yaml"].partition("  checks:")[0] + "  checks: []\n"},
        "task.yaml:12",
        "verification.checks is wrong",
    ),
    "an unknown mode": (with_line("task.yaml", "mode: artifacts", "mode: guess"), "task.yaml:9", "verification.mode is wrong"),
    "no artifacts": (with_line("task.yaml", "[/app/out.txt]\n", "[]\n"), "task.yaml:10", "at least one artifact"),
    "a relative path": (with_line("task.yaml", "[/app/**]", "[app/**]"), "task.yaml:11", "verification.writes.0 is wrong"),
    "a date that is none": (with_line("task.yaml", "2024-01-15", "2024-02-31"), "task.yaml:5", "epoch is no date"),
    "a negative budget": (with_line("task.yaml", "{turns: 5}", "{seconds: -1}"), "task.yaml:7", "budget.seconds is wrong"),
    "a key twice": (with_line("task.yaml", "version: 1\n", "version: 1\nversion: 2\n"), "task.yaml:7", "'version' stands twice"),
    "a key that is no text": (with_line("task.yaml", "version: 1", "1: version"), "task.yaml:6", "A key must be text"),
    "broken YAML": (with_line("task.yaml", "[text]", "[text"), "task.yaml:4", "The YAML is broken"),
    "an empty document": ({"task.yaml": ""}, "task.yaml:1", "The document is wrong"),
    "a missing generator": ({"generator.py": None}, "generator.py", "lacks generator.py"),
    "a missing gold": ({"gold.yaml": None}, "gold.yaml", "lacks gold.yaml"),
    "a stray file": ({"notes.txt": "x"}, "notes.txt", "has no file 'notes.txt'"),
    "a dotfile for the judge": ({"verifier/.secret": "x"}, ".secret", "wheel would lose"),
    "two checks of one name": (
        {"task.yaml": FILES["task.yaml"] + "    - {kind: file_content, name: words, options: {}}\n"},
        "task.yaml:16",
        "Two checks are named 'words'",
    ),
    "tests that are not there": (
        {"task.yaml": FILES["task.yaml"] + "    - {kind: pytest, name: t, options: {tests: [test_gone.py]}}\n"},
        "task.yaml:16",
        "Check 't' names test_gone.py, which verifier/ does not hold",
    ),
    "a judge's program that is not there": (
        {"task.yaml": FILES["task.yaml"] + "    - {kind: command, name: t, options: {argv: [sh, -c, 'a; /verifier/gone.sh']}}\n"},
        "task.yaml:16",
        "Check 't' names gone.sh",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_wrong_is_named_by_file_and_line(
    tmp_path: Path, case: tuple[dict[str, str | None], str, str]
) -> None:
    changed, where, message = case
    folder = write_task(tmp_path, changed=changed)

    with pytest.raises(TaskError) as caught:
        load_task(folder)

    assert f"{where}: " in str(caught.value)
    assert message in str(caught.value)


def test_a_task_says_what_its_folder_says(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path))

    assert (task.name, task.title, task.user) == ("hello", "Say hello", 1000)
    assert task.epoch_s == 1705309200
    assert task.budget == {"turns": 5}
    assert list(task.verification.manifest) == ["test_it.py"]
    assert task.verification.checks[0].options["equals"] == {"hidden": "word"}


@pytest.mark.parametrize(
    "argv",
    [
        "[python3, /verifier/test_it.py]",
        "[sh, -c, 'cat /verifier/hidden.json; ls /verifier/data /verifier']",
        "[cat, /logs/verifier/reward.txt]",
    ],
)
def test_files_that_the_judge_will_find_are_accepted(tmp_path: Path, argv: str) -> None:
    check = f"    - {{kind: command, name: t, options: {{argv: {argv}}}}}\n"
    task_yaml = FILES["task.yaml"] + check
    changed: dict[str, str | None] = {"task.yaml": task_yaml}
    changed["verifier/data/a.txt"] = "1"

    task = load_task(write_task(tmp_path, changed=changed))

    assert len(task.verification.checks) == 2


def test_options_are_held_against_their_kind(tmp_path: Path) -> None:
    def refuse(kind: str, options: JsonObject) -> None:
        raise ValueError(f"{kind} has no {sorted(options)[0]!r}.")

    with pytest.raises(TaskError) as caught:
        load_task(write_task(tmp_path), validate=refuse)

    assert "task.yaml:15: Check 'words': file_content has no 'equals'." in str(
        caught.value
    )


def test_a_link_among_the_fixtures_is_refused(tmp_path: Path) -> None:
    folder = write_task(tmp_path)
    (folder / "verifier/link").symlink_to("test_it.py")

    with pytest.raises(TaskError, match="wheel would lose"):
        load_task(folder)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    folder = write_task(tmp_path)
    (folder / "verifier/empty").mkdir()

    with pytest.raises(TaskError, match="empty folder"):
        load_task(folder)


def test_bytecode_is_no_part_of_a_task(tmp_path: Path) -> None:
    folder = write_task(tmp_path)
    before = load_task(folder).verification.manifest
    for place in (folder, folder / "verifier"):
        (place / "__pycache__").mkdir()
        (place / "__pycache__/x.pyc").write_bytes(b"\x00")

    assert load_task(folder).verification.manifest == before


def test_a_file_that_is_no_utf_8_is_named(tmp_path: Path) -> None:
    folder = write_task(tmp_path)
    (folder / "task.yaml").write_bytes(b"title: \xff\n")

    with pytest.raises(TaskError, match=r"task\.yaml: The file is not UTF-8"):
        load_task(folder)


@pytest.mark.parametrize("name", ["Hello", "a_b", "-x", "a b"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TaskError, match="lower case"):
        load_task(write_task(tmp_path, name=name))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="folder is missing"):
        load_task(tmp_path / "nowhere")
