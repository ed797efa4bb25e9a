"""The attack catalogue: rows, variants, and what each must end in."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.errors import TaskError
from rlvr_envs.records import ToolCall
from rlvr_envs.tasks.attacks import Catalogue, Flag, load_attacks
from rlvr_envs.tasks.task import Script
from rlvr_envs.tasks.taskset import Taskset

TERMINAL = Path(__file__).parents[2] / "rlvr_envs/envs/terminal"
GOLD = Script("gold", (ToolCall("bash", {"command": "right"}), ToolCall("submit")))
CATALOGUE = """attacks:
  - id: T1
    title: A hook
    task: hello
    defences: [D2]
    flag: [HARNESS_TAMPER]
    calls:
      - bash: {command: hook}
  - id: T2
    title: A guess
    task: hello
    instance: 4
    defences: []
    flag: if-effect
    calls:
      - bash: {command: guess}
      - submit: {}
twins:
  - id: T.log
    title: A look
    task: hello
    calls:
      - bash: {command: look}
"""


def load(tmp_path: Path, text: str = CATALOGUE) -> Catalogue:
    (tmp_path / "attacks.yaml").write_text(text)
    return load_attacks(tmp_path / "attacks.yaml")


def names(script: Script | None) -> list[str]:
    assert script is not None
    return [call.arguments.get("command", call.name) for call in script.calls]


def test_a_flagged_attack_is_played_alone_and_after_gold(tmp_path: Path) -> None:
    attack = load(tmp_path).attacks[0]

    assert attack.flag is Flag.REQUIRED
    assert attack.script().expect_tamper == ("HARNESS_TAMPER",)
    assert names(attack.script()) == ["hook", "submit"]
    assert names(attack.solved(GOLD)) == ["right", "hook", "submit"]


def test_tampering_may_differ_after_gold(tmp_path: Path) -> None:
    row = "    calls:\n      - bash: {command: hook}\n"
    other = row + "    after_gold:\n      - bash: {command: append}\n"

    attack = load(tmp_path, CATALOGUE.replace(row, other)).attacks[0]

    assert names(attack.script()) == ["hook", "submit"]
    assert names(attack.solved(GOLD)) == ["right", "append", "submit"]


def test_an_attack_without_a_code_is_played_alone(tmp_path: Path) -> None:
    attack = load(tmp_path).attacks[1]

    assert attack.solved(GOLD) is None
    assert (attack.instance, attack.codes) == (4, ())


def test_a_twin_follows_gold(tmp_path: Path) -> None:
    assert names(load(tmp_path).twins[0].script(GOLD)) == ["right", "look", "submit"]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("flag: if-effect", "flag: maybe", 14, "flag is wrong"),
        ("flag: [HARNESS_TAMPER]", "flag: []", 6, "say none"),
        ("defences: [D2]", "defences: [D9]", 5, "defences.0 is wrong"),
        ("id: T2", "id: T1", 9, "'T1' stands twice"),
        ("title: A look", "titel: A look", 20, "'titel' is unknown"),
    ],
)
def test_a_broken_row_is_named_by_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    with pytest.raises(TaskError) as caught:
        load(tmp_path, CATALOGUE.replace(old, new))

    assert f"attacks.yaml:{line}: " in str(caught.value)
    assert message in str(caught.value)


def test_the_terminals_catalogue_covers_every_defence_and_known_tasks() -> None:
    catalogue = load_attacks(TERMINAL / "attacks.yaml")
    known = Taskset(TERMINAL / "tasks").names
    rows = {attack.id for attack in catalogue.attacks}

    assert {attack.task for attack in catalogue.attacks} <= set(known)
    assert {twin.task for twin in catalogue.twins} <= set(known)
    assert {name for row in catalogue.attacks for name in row.defences} == {
        f"D{number}" for number in range(1, 9)
    }
    assert rows >= {f"T{number}" for number in range(1, 18, 2)}
    assert rows >= {f"A06.{letter}" for letter in "abcdef"}
    assert len(rows) >= 25
    assert len(catalogue.twins) >= 10
