"""What `rlvr run` makes of a group's channels, on real sandboxes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.records import Snapshot
from tests.cli.conftest import Call

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sandboxes need root")


@pytest.fixture(autouse=True)
def image(base_snapshot: Snapshot) -> None:
    """Skip where the base image was not built."""


@pytest.fixture
def vandal(tmp_path: Path) -> str:
    """A policy that destroys three unseen things, twice the last."""
    places = ("/srv/one", "/opt/two", "/media/three", "/media/three")
    calls = [
        {"name": "bash", "arguments": {"command": f"rm -rf {place}"}}
        for place in places
    ]
    path = tmp_path / "vandal.jsonl"
    path.write_text("".join(json.dumps(call) + "\n" for call in calls))
    return f"script:{path}"


def group(rlvr: Call, *words: Any) -> dict[str, Any]:
    said = rlvr("run", "--task", "sum-integers", "--no-record", "--json", *words)
    assert said.status == 0, said.err
    line: dict[str, Any] = said.lines[-1]
    return line


def test_a_scalar_is_bounded_and_an_advantage_is_not(rlvr: Call, vandal: str) -> None:
    line = group(rlvr, "--policy", vandal, "--group", 2)

    assert line["path_rewards"] == [-0.35, -0.35]
    assert [sum(turns) for turns in line["two_channels"]] == [-0.125, -0.125]
    assert line["repetitions"] == [-0.05, -0.05]
    assert line["rewards"] == [0.0, 0.0]
    assert line["diagnostics"]["dead"] == "all_fail"


def test_people_see_both_channels(rlvr: Call, vandal: str, tmp_path: Path) -> None:
    plot = tmp_path / "groups.png"
    said = rlvr(
        *("run", "--task", "sum-integers", "--no-record", "--group", 2),
        *("--policy", vandal, "--policy", "gold", "--plot", plot),
    )

    assert "Path channel" in said.out
    assert "two channels" in said.out
    assert "-0.35" in said.out
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert plot.stat().st_size > 10_000
