"""`rlvr learn` on real sandboxes, as short as it can be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlvr_envs.records import Snapshot
from tests.cli.conftest import Call

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sandboxes need root")

QUICK = ("learn", "--quick", "--group", 2)


@pytest.fixture(autouse=True)
def image(base_snapshot: Snapshot) -> None:
    """Skip where the base image was not built."""


def test_it_prints_updates_then_summaries_and_draws(rlvr: Call, tmp_path: Path) -> None:
    plot = tmp_path / "curves.png"
    said = rlvr(*QUICK, "--json", "--plot", plot)

    updates = [line for line in said.lines if "update" in line]
    summaries = [line for line in said.lines if "summary" in line]
    assert said.status == 0, said.err
    assert len(updates) == 10
    assert {line["void"] for line in updates} == {0}
    assert [line["summary"] for line in summaries] == [
        "outcome",
        "two channels",
        "penalty alone",
        "outcome",
        "outcome and potential",
    ]
    assert set(summaries[0]["success"]) == {"mean", "deviation"}
    assert not [line for line in said.lines if "claim" in line]
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert plot.stat().st_size > 20_000


def test_people_get_a_table_and_no_verdict_that_is_too_early(rlvr: Call) -> None:
    said = rlvr(*QUICK, "--only", "reach")

    assert said.status == 0
    assert "outcome and potential" in said.out
    assert "Too short to judge" in said.out
    assert "spring-clean" not in said.out


def test_what_does_not_reproduce_is_said_and_fails(rlvr: Call) -> None:
    said = rlvr(
        *("learn", "--only", "reach", "--seeds", 1, "--updates", 1),
        *("--group", 2, "--json"),
    )

    assert said.status == 1
    assert said.lines[-1]["holds"] is False
