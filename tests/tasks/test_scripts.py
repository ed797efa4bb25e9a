"""Scripts are read as they stand, with known placeholders filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.errors import TaskError
from rlvr_envs.records import ToolCall
from rlvr_envs.tasks.instances import instantiate
from rlvr_envs.tasks.loader import load_task
from rlvr_envs.tasks.scripts import cheats, gold, null, twins
from rlvr_envs.tasks.task import Instance
from tests.tasks.builders import write_task


def made(tmp_path: Path, changed: dict[str, str | None] | None = None) -> Instance:
    return instantiate(load_task(write_task(tmp_path, changed=changed)), 0)


def test_null_does_nothing() -> None:
    assert null().calls == (ToolCall("submit"),)


def test_known_placeholders_are_filled_and_others_left_alone(tmp_path: Path) -> None:
    instance = made(tmp_path)
    word = instance.recipe.values["word"]

    first = gold(instance).calls[0]

    assert first == ToolCall(
        "bash", {"command": f"echo {word} ${{word}} {{other}} > /app/out.txt"}
    )


def test_placeholders_are_filled_within_lists(tmp_path: Path) -> None:
    instance = made(tmp_path)

    call = cheats(instance)[1].calls[0]

    assert call.arguments["argv"] == ["echo", instance.recipe.values["word"]]


def test_a_script_may_name_what_an_agent_has_to_find_out(tmp_path: Path) -> None:
    told = '- submit: {answer: "{hidden.word} {hidden.none} {hidden}"}\n'
    instance = made(tmp_path, {"gold.yaml": told})

    (last,) = gold(instance).calls

    word = instance.recipe.hidden["word"]
    assert last.arguments["answer"] == f"{word} {{hidden.none}} {{hidden}}"


def test_cheats_carry_their_codes(tmp_path: Path) -> None:
    first, second = cheats(made(tmp_path))

    assert (first.name, first.expect_tamper) == ("first", ("TOOL_SHADOW",))
    assert (second.name, second.expect_tamper) == ("second", ())


def test_a_cheat_earns_nothing_unless_its_task_caps_it(tmp_path: Path) -> None:
    capped = "- name: a\n  at_most: 0.35\n  calls: [{submit: {}}]\n"
    plain = "- name: b\n  calls: [{submit: {}}]\n"
    instance = made(tmp_path, {"cheats.yaml": capped + plain})

    assert [script.at_most for script in cheats(instance)] == [0.35, 0.0]


def test_cheats_and_twins_may_be_absent(tmp_path: Path) -> None:
    instance = made(tmp_path, {"cheats.yaml": None, "twins.yaml": None})

    assert (cheats(instance), twins(instance)) == ((), ())


BROKEN = {
    "no submit": ("gold.yaml", "- bash: {command: ls}\n", 1, "ends in submit"),
    "an early submit": ("gold.yaml", "- submit: {}\n- submit: {}\n", 1, "ends in submit"),
    "two tools at once": ("gold.yaml", "- submit: {}\n  bash: {}\n", 1, "0 is wrong"),
    "no calls": ("gold.yaml", "[]\n", 1, "The document is wrong"),
    "an unknown code": (
        "cheats.yaml",
        "- name: a\n  calls: [{submit: {}}]\n- name: b\n  flag: [NAUGHTY]\n  calls: [{submit: {}}]\n",
        4,
        "'NAUGHTY' is not one of",
    ),
    "a name twice": (
        "cheats.yaml",
        "- name: a\n  calls: [{submit: {}}]\n- name: a\n  calls: [{submit: {}}]\n",
        3,
        "'a' stands twice",
    ),
    "a cap that would pass": (
        "cheats.yaml",
        "- name: a\n  calls: [{submit: {}}]\n- name: b\n  at_most: 0.9\n  calls: [{submit: {}}]\n",
        4,
        "0.9 is greater than or equal to the maximum",
    ),
    "a cap on tampering": (
        "cheats.yaml",
        "- name: a\n  calls: [{submit: {}}]\n- name: b\n  at_most: 0.3\n  flag: [EGRESS]\n  calls: [{submit: {}}]\n",
        3,
        "is wrong",
    ),
    "one cheat alone": ("cheats.yaml", "- name: a\n  calls: [{submit: {}}]\n", 1, "is wrong"),
    "an unknown key": ("twins.yaml", "- name: a\n  flag: [EGRESS]\n  calls: [{submit: {}}]\n", 2, "'flag' is unknown"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_script_is_named_by_line(
    tmp_path: Path, case: tuple[str, str, int, str]
) -> None:
    file, content, line, message = case
    instance = made(tmp_path, {file: content})
    read = {"gold.yaml": gold, "cheats.yaml": cheats, "twins.yaml": twins}[file]

    with pytest.raises(TaskError) as caught:
        read(instance)

    assert f"{file}:{line}: " in str(caught.value)
    assert message in str(caught.value)
