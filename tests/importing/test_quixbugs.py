"""Programs in QuixBugs' layout become tasks: corrected earns 1.0, buggy 0.0."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.cli import main
from rlvr_envs.errors import TaskError
from rlvr_envs.importing import linked, quixbugs
from tests.importing.making import quixbugs_checkout

CHECKOUT = "RLVR_QUIXBUGS"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return quixbugs_checkout(tmp_path / "checkout")


def test_every_program_is_found(checkout: Path) -> None:
    names = [program.name for program in quixbugs.programs(checkout)]

    assert names == ["double", "last_node"]


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="has no folder python_programs"):
        quixbugs.programs(tmp_path)


def test_a_missing_counterpart_is_named(checkout: Path) -> None:
    (checkout / "correct_python_programs" / "double.py").unlink()

    with pytest.raises(TaskError, match=r"double\.py"):
        quixbugs.programs(checkout)


def test_skipped_inputs_are_left_out_and_never_skipped(checkout: Path) -> None:
    (program, _) = quixbugs.programs(checkout)

    text = quixbugs.held_out(program)

    assert "[[99], 198]" not in text
    assert "[[2], 4]" in text
    assert "skip" not in text
    assert "use_correct" not in text


def test_the_agent_gets_neither_tests_nor_answer(checkout: Path) -> None:
    (program, _) = quixbugs.programs(checkout)

    laid = b"".join(f.data for f in quixbugs.converted(program).recipe.files)

    assert laid == program.buggy.encode()


def test_linked_structures_cross_and_come_back() -> None:
    end = linked.Node("end")
    start = linked.Node("start", end, successors=[end])
    end.predecessors = [start, end]

    def mark(node: linked.Node) -> Any:
        node.successor.value = "marked"
        return {node.successor}, (node, linked.Node("new")), iter([1])

    here = linked.Crossing()
    rows, packed = here.pack([start])
    answer = linked.answer(mark, rows, packed)
    found, (same, new), numbers = here.unpack(*answer)

    assert found == {end}
    assert same is start
    assert end.value == "marked"
    assert new.value == "new"
    assert numbers == [1]


def test_fewer_nodes_than_were_sent_are_refused() -> None:
    here = linked.Crossing()
    here.pack(linked.Node(1))

    with pytest.raises(ValueError, match="0 nodes"):
        here.unpack([], None)


@pytest.mark.usefixtures("namespaces", "base_snapshot")
def test_gold_earns_all_and_all_else_nothing(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["import", "quixbugs", str(checkout), "--check", "--json"])

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    table = [line for line in lines if "program" in line]
    assert status == 0
    assert lines[-1] == {"programs": 2, "ok": 2}
    assert [(row["gold"], row["null"]) for row in table] == [(1.0, 0.0)] * 2
    assert all(len(row["cheats"]) >= 2 for row in table)


@pytest.mark.slow
@pytest.mark.usefixtures("namespaces", "base_snapshot")
def test_all_forty_of_a_checkout(capsys: pytest.CaptureFixture[str]) -> None:
    if CHECKOUT not in os.environ:
        pytest.skip(f"{CHECKOUT} names no checkout of jkoppel/QuixBugs")

    status = main(["import", "quixbugs", os.environ[CHECKOUT], "--check", "--json"])

    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert status == 0
    assert last == {"programs": 40, "ok": 40}
