"""The monitors at the command line, over recorded episodes."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.rewards.tickets.inputs import Rollout
from rlvr_envs.rewards.tickets.score import as_outcome, score_json, score_ticket
from tests.cli.conftest import Call
from tests.rewards.tickets.builders import GOLD, NULL, VERBAL, case

VOID = {"status": "infra_error", "reward": 0.0, "details": {}}
PLAIN = {"status": "passed", "reward": 1.0, "details": {}}


def outcome_of(rolled: Rollout) -> dict[str, Any]:
    score = score_ticket(case(), rolled)
    return {**as_outcome(score).to_json(), "details": {"ticket": score.to_json()}}


def record(folder: Path, name: str, outcome: dict[str, Any], *, policy: str) -> Path:
    """Write the lines of a trajectory that the monitors read."""
    number = len(list(folder.iterdir()))
    call = {"name": "submit", "arguments": {"answer": f"=reply {name}"}}
    turn = {"turn": 1, "action": call, "call": call, "observation": "", "info": {}}
    ended = {"reward": 0.0, "terminated": True, "truncated": False, "channels": {}}
    lines = [
        {"kind": "header", "schema": 1, "task": "ticket-a", "instance": 0},
        {"kind": "policy", "name": policy},
        {"kind": "turn", **turn, **ended},
        {"kind": "footer", "ending": "terminated", "turns": 1, "outcome": outcome},
    ]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, ns=(number, number))
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Four tickets of two groups, a void episode, and one that is no ticket."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for name, rolled, policy in (
        ("a", GOLD, "gold"),
        ("b", VERBAL, "gold"),
        ("c", GOLD, "other"),
        ("d", GOLD, "other"),
    ):
        record(folder, name, outcome_of(rolled), policy=policy)
    record(folder, "e", VOID, policy="gold")
    record(folder, "f", PLAIN, policy="gold")
    tampered = {**outcome_of(GOLD), "status": "tampered", "reward": 0.0}
    record(folder, "g", tampered, policy="gold")
    return folder


def test_it_tells_of_each_ticket_and_of_all(rlvr: Call, runs: Path) -> None:
    said = rlvr("tickets", runs, "--json")

    *lines, summary = said.lines
    assert said.status == 0
    assert [(line["episode"], line["final"]) for line in lines] == [
        ("a", 1.0),
        ("b", 0.31),
        ("c", 1.0),
        ("d", 1.0),
    ]
    assert lines[1]["guardrails"][0]["name"] == "empty_promise"
    assert (summary["tickets"], summary["void"], summary["others"]) == (4, 1, 1)
    assert summary["tampered"] == 1
    assert summary["hit_rate"] == 0.25
    assert summary["flat_groups"] == 0.5
    assert summary["clusters"][0]["episodes"] == ["b"]
    assert summary["alarms"] == []


def test_people_read_it_as_tables(rlvr: Call, runs: Path) -> None:
    said = rlvr("tickets", runs)

    assert "empty_promise" in said.out
    assert "4 tickets (1 void, 1 tampered and 1 other episodes left out)" in said.out


def test_the_sheet_goes_out_and_comes_back(
    rlvr: Call, runs: Path, tmp_path: Path
) -> None:
    sheet = tmp_path / "audit.csv"
    rlvr("tickets", runs, "--audit", sheet, "--share", 1.0, "--seed", 3)
    rows = list(csv.DictReader(sheet.read_text().splitlines()))
    assert {row["episode"]: row["reply"] for row in rows}["b"] == "'=reply b"
    for row in rows:
        row["human_success"] = "yes"
    with sheet.open("w", newline="") as out:
        filled = csv.DictWriter(out, rows[0])
        filled.writeheader()
        filled.writerows(rows)

    summary = rlvr("tickets", runs, "--filled", sheet, "--json").lines[-1]

    assert summary["audit"] == {
        "sampled": 4,
        "filled": 4,
        "success": 0.75,
        "guardrails": 0.0,
        "disagreeing": ["b"],
    }


def test_a_lone_score_is_read_too(rlvr: Call, tmp_path: Path) -> None:
    file = tmp_path / "b.score.json"
    file.write_text(score_json(score_ticket(case(), VERBAL)))

    lines = rlvr("tickets", file, "--json").lines

    assert (lines[0]["group"], lines[0]["final"]) == ("T-1", 0.31)


def test_collapsed_windows_trip_the_breaker(rlvr: Call, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    for number in range(6):
        record(folder, f"n{number}", outcome_of(NULL), policy="null")

    two = rlvr("tickets", folder, "--window", 3, "--json")
    three = rlvr("tickets", folder, "--window", 2, "--json")

    assert (two.status, two.lines[-1]["tripped"]) == (0, "")
    assert (three.status, three.lines[-1]["windows"]) == (1, 3)
    assert "mean_final" in three.lines[-1]["tripped"]


def test_what_is_no_ticket_is_the_callers_mistake(rlvr: Call, runs: Path) -> None:
    broken = runs / "b.jsonl"
    broken.write_text(broken.read_text().replace('"final": 0.31', '"final": 0.9'))

    lacking = rlvr("tickets", runs / "f.jsonl")
    forged = rlvr("tickets", broken)
    missing = rlvr("tickets", runs / "nothing.json")

    assert (lacking.status, forged.status, missing.status) == (2, 2, 2)
    assert "No scored ticket" in lacking.err
    assert "b.jsonl.final: is 0.31" in forged.err
    assert "nothing.json cannot be read" in missing.err
