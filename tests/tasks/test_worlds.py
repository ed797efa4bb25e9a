"""A task that asks a database for what it has not is refused as it is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.errors import TaskError
from rlvr_envs.tasks.instances import instantiate
from rlvr_envs.tasks.loader import load_task
from rlvr_envs.tasks.worlds import POSTGRES_KINDS, flaw_of, recipe_flaw
from rlvr_envs.verifiers.kinds import KINDS
from tests.tasks.builders import FILES, write_task

WRONG = {
    "rights that are none": ("rights: own", 7, "'own' is not one of"),
    "an unknown part": ("engines: sqlite", 7, "'engines' is unknown"),
    "no door": ("rights: none", 7, "there is no door"),
    "a service on SQLite": ("engine: sqlite, service: shop", 7, "services need"),
    "tables without the right": ("define: [public.t]", 7, "needs the rights define"),
    "tables that a service writes": (
        "rights: define, define: [public.t], service: shop",
        7,
        "cannot be the agent's to define",
    ),
    "another schema on SQLite": (
        "engine: sqlite, rights: define, define: [public.t]",
        7,
        "is main",
    ),
}


def folder(tmp_path: Path, world: str, *, kind: str = "", service: str = "") -> Path:
    text = FILES["task.yaml"].replace("budget: {turns: 5}", f"world: {{{world}}}")
    if kind:
        text += f"    - {{kind: {kind}, name: more, options: {{}}}}\n"
    changed: dict[str, str | None] = {"task.yaml": text}
    if service:
        changed["generator.py"] = (
            "from rlvr_envs.tasks.task import Recipe\n\n\n"
            "def generate(rng, number):\n"
            f"    return Recipe(values={{'name': 'x', 'word': 'y'}}, service={service})\n"
        )
    return write_task(tmp_path, changed=changed)


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_a_world_that_cannot_be_is_named_by_file_and_line(
    tmp_path: Path, case: tuple[str, int, str]
) -> None:
    world, line, complaint = case

    with pytest.raises(TaskError, match=complaint) as raised:
        load_task(folder(tmp_path, world))

    assert raised.value.file == tmp_path / "hello" / "task.yaml"
    assert raised.value.line == line
    assert raised.value.remedy


@pytest.mark.parametrize("kind", sorted(POSTGRES_KINDS))
def test_a_check_that_sqlite_has_not_is_named_by_its_line(
    tmp_path: Path, kind: str
) -> None:
    with pytest.raises(TaskError, match=f"{kind} need the engine postgres") as raised:
        load_task(folder(tmp_path, "engine: sqlite", kind=kind))

    lines = raised.value.file.read_text().splitlines()
    assert f"kind: {kind}" in lines[raised.value.line - 1]
    assert "sql_invariant" in raised.value.remedy


def test_the_kinds_that_sqlite_has_not_exist() -> None:
    assert KINDS.keys() >= POSTGRES_KINDS


@pytest.mark.parametrize("kind", sorted(POSTGRES_KINDS))
def test_postgres_has_every_check(kind: str) -> None:
    assert flaw_of({"rights": "write"}, [kind]) is None


@pytest.mark.parametrize(
    "world",
    [
        {},
        {"rights": "none", "service": "shop"},
        {"rights": "define", "service": "shop"},
        {"rights": "define", "define": ["public.t"]},
        {"engine": "sqlite", "rights": "define", "define": ["main.t"]},
    ],
)
def test_what_goes_together_is_taken(world: dict[str, object]) -> None:
    assert flaw_of(world, ["sql_invariant", "sql_rows", "answer", "told"]) is None


@pytest.mark.parametrize(
    ("world", "complaint"),
    [
        ("engine: sqlite", "neither a service nor rivals"),
        ("rights: define, define: [public.t]", "Rivals cannot write"),
    ],
)
def test_rivals_that_a_world_cannot_have_are_named_with_the_generator(
    tmp_path: Path, world: str, complaint: str
) -> None:
    rivals = "{'rivals': [{'before': 'first_write', 'statements': []}]}"
    task = load_task(folder(tmp_path, world, service=rivals))

    with pytest.raises(TaskError, match=complaint) as raised:
        instantiate(task, 0)

    assert raised.value.file == task.folder / "generator.py"
    assert "service" in raised.value.remedy


def test_rivals_of_other_worlds_are_taken() -> None:
    assert not recipe_flaw({"rights": "write"}, {"rivals": [{}]})
    assert not recipe_flaw({"engine": "sqlite"}, {})
