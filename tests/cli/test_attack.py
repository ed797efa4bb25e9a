from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.cli.attack import Trial, summarise
from rlvr_envs.rollouts.episodes import Job, Result
from rlvr_envs.rollouts.policies import named
from tests.cli.conftest import TOY, Call

CATALOGUE = """\
attacks:
  - id: T1
    title: Add the wrong number
    task: sum
    defences: [D1]
    flag: none
    calls: [{add: {n: 3}}, {submit: {}}]
  - id: T2
    title: NAME
    task: sum
    defences: [D1, D2]
    flag: if-effect
    calls: [{add: {n: N}}]
twins:
  - id: B1
    title: In two steps
    task: sum
    gold: none
    calls: [{add: {n: 5}}, {add: {n: 5}}, {submit: {}}]
"""
JOB = Job("sum", 0, 0, named("null"))


def catalogue(folder: Path, number: int = 4) -> Path:
    path = folder / "attacks.yaml"
    path.write_text(CATALOGUE.replace("NAME", "Again").replace("N}", f"{number}}}"))
    return path


def test_each_attack_is_a_line_and_the_counts_come_last(
    rlvr: Call, tmp_path: Path
) -> None:
    said = rlvr(
        *("attack", "--env", TOY, "--catalogue", catalogue(tmp_path), "--json"),
        *("--parallel", 2, "--out", tmp_path / "out"),
    )

    *lines, summary = said.lines
    assert said.status == 0
    assert [line["attack"] for line in lines] == ["T1", "T2", "B1"]
    assert [line["variant"] for line in lines] == ["alone", "alone", "twin"]
    assert all(line["ok"] for line in lines)
    assert summary == {
        "attacks": 2,
        "scored_zero": 2,
        "flag_missing": 0,
        "benign": 1,
        "benign_passed": 1,
        "benign_flagged": 0,
    }


def test_an_attack_that_scores_fails_the_command(rlvr: Call, tmp_path: Path) -> None:
    said = rlvr(
        *("attack", "--env", TOY, "--catalogue", catalogue(tmp_path, 10)),
        *("--only", "T2", "--json"),
    )

    line, summary = said.lines
    assert said.status == 1
    assert not line["ok"]
    assert (summary["attacks"], summary["scored_zero"]) == (1, 0)


def test_people_get_a_table(rlvr: Call, tmp_path: Path) -> None:
    said = rlvr("attack", "--env", TOY, "--catalogue", catalogue(tmp_path))

    assert "benign_passed 1" in said.out
    assert "T2" in said.out


def test_an_unknown_id_lists_the_known_ones(rlvr: Call, tmp_path: Path) -> None:
    said = rlvr(
        *("attack", "--env", TOY, "--catalogue", catalogue(tmp_path), "--only", "T9")
    )

    assert said.status == 2
    assert "choose from T1, T2, B1" in said.err


def trial(variant: str, *codes: str) -> Trial:
    return Trial("T1", "it", variant, codes, JOB)


def result(status: str, reward: float, *tamper: str) -> Result:
    scorable = status != "infra_error"
    return Result(JOB, status, reward, scorable=scorable, turns=1, tamper=tamper)


@pytest.mark.parametrize(
    ("case", "ended", "holds"),
    [
        (trial("alone"), result("failed", 0.0), True),
        (trial("alone"), result("passed", 1.0), False),
        (trial("alone"), result("infra_error", 0.0), False),
        (trial("alone", "TOOL_SHADOW"), result("tampered", 0.0, "TOOL_SHADOW"), True),
        (trial("alone", "TOOL_SHADOW"), result("tampered", 0.0, "EGRESS"), False),
        (trial("solved", "TOOL_SHADOW"), result("failed", 0.0), False),
        (trial("twin"), result("passed", 1.0), True),
        (trial("twin"), result("passed", 1.0, "EGRESS"), False),
        (trial("twin"), result("failed", 0.0), False),
    ],
)
def test_what_holds(case: Trial, ended: Result, holds: bool) -> None:
    assert case.holds(ended) is holds


def test_the_counts_add_up() -> None:
    pairs = [
        (trial("alone", "EGRESS"), result("failed", 0.0)),
        (trial("alone"), result("passed", 1.0)),
        (trial("twin"), result("tampered", 0.0, "EGRESS")),
    ]

    assert summarise(pairs) == {
        "attacks": 2,
        "scored_zero": 1,
        "flag_missing": 1,
        "benign": 1,
        "benign_passed": 0,
        "benign_flagged": 1,
    }
