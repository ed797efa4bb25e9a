"""The commands on real sandboxes; each test plays few and short episodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.records import Snapshot
from rlvr_envs.trajectories.record import Kind
from rlvr_envs.trajectories.store import read
from tests.cli.conftest import Call
from tests.rollouts.chat_server import calls, serving

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sandboxes need root")

TASK = "sum-integers"


@pytest.fixture(autouse=True)
def image(base_snapshot: Snapshot) -> None:
    """Skip where the base image was not built."""


def test_a_group_a_policy_is_run_judged_and_recorded(
    rlvr: Call, tmp_path: Path
) -> None:
    said = rlvr(
        *("run", "--task", TASK, "--group", 2, "--parallel", 2, "--json"),
        *("--policy", "gold", "--policy", "null", "--policy", "cheat"),
        *("--out", tmp_path),
    )

    groups = [line for line in said.lines if "group" in line]
    assert said.status == 0, said.err
    assert [(g["policy"], g["rewards"]) for g in groups] == [
        ("gold", [1.0, 1.0]),
        ("null", [0.0, 0.0]),
        ("cheat", [0.0, 0.0]),
    ]
    assert len({g["snapshot"] for g in groups}) == 1
    assert len(list(tmp_path.glob("*.jsonl"))) == 6


def one(rlvr: Call, folder: Path, *words: str) -> str:
    said = rlvr("run", "--task", TASK, "--out", folder, "--json", *words)
    assert said.status == 0, said.err
    path: str = said.lines[0]["trajectory"]
    return path


def test_a_gold_episode_is_replayed_byte_for_byte(rlvr: Call, tmp_path: Path) -> None:
    said = rlvr(
        *("replay", one(rlvr, tmp_path), "--times", 4, "--workers", 2, "--json")
    )

    (line,) = said.lines
    assert said.status == 0, line
    assert line["identical"] == 4


@pytest.mark.parametrize(
    ("words", "state"), [((), "replayed"), (("--keep-state",), "kept")]
)
def test_a_final_state_is_scored_again_with_the_same_verdict(
    rlvr: Call, tmp_path: Path, words: tuple[str, ...], state: str
) -> None:
    path = one(rlvr, tmp_path, *words)
    said = rlvr("verify", path, "--times", 2, "--json")

    (line,) = said.lines
    assert said.status == 0, line
    assert (line["state"], line["agree"], line["flaky"]) == (state, 2, False)
    assert (line["status"], line["reward"]) == ("passed", 1.0)


def test_a_kept_loss_stays_a_loss(rlvr: Call, tmp_path: Path) -> None:
    path = one(rlvr, tmp_path, "--keep-state", "--policy", "null")
    said = rlvr("verify", path, "--json")

    assert said.status == 0
    assert said.lines[0]["status"] == "failed"


def test_a_verdict_that_differs_from_the_record_fails(
    rlvr: Call, tmp_path: Path
) -> None:
    path = Path(one(rlvr, tmp_path, "--policy", "null"))
    path.write_text(path.read_text().replace('"status":"failed"', '"status":"passed"'))

    said = rlvr("verify", path, "--json")

    assert said.status == 1
    assert said.lines[0]["agree"] == 0


def test_a_state_that_was_changed_is_refused(rlvr: Call, tmp_path: Path) -> None:
    path = one(rlvr, tmp_path, "--keep-state")
    (archive,) = tmp_path.glob("*.state.tar")
    archive.write_bytes(archive.read_bytes() + b"\0")

    said = rlvr("verify", path, "--json")

    assert said.status == 2
    assert "not what its digest says" in said.err


def test_a_model_drives_a_real_shell(rlvr: Call, tmp_path: Path) -> None:
    look = calls(("bash", {"command": "pwd"}), ("read_file", {"path": "/etc/hostname"}))
    with serving(look, calls(("nonsense", "{")), calls(("submit", {}))) as chat:
        said = rlvr(
            *("run", "--task", TASK, "--policy", "openai", "--base-url", chat.url),
            *("--model", "tiny", "--out", tmp_path, "--json"),
        )

    (result, _) = said.lines
    answers = [
        m["content"] for m in chat.requests[-1]["messages"] if m["role"] == "tool"
    ]
    assert (result["status"], result["turns"]) == ("failed", 4)
    assert answers[:2] == ["/app", "sandbox"]
    assert "alformed" in answers[2]
    record = read(result["trajectory"])
    assert len(list(record.of(Kind.MESSAGE))) == 3


def test_chance_plays_schema_valid_calls(rlvr: Call, tmp_path: Path) -> None:
    path = one(rlvr, tmp_path, "--policy", "random", "--seed", "1")
    kinds: set[Any] = {turn.info["error_kind"] for turn in read(path).turns}

    assert not kinds & {"malformed_call", "unknown_tool", "invalid_arguments"}


def test_an_episode_is_played_by_hand(rlvr: Call, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text('echo "hello $((40 + 2))"\n:submit\n')

    said = rlvr("play", "--task", TASK, "--script", lines)

    assert "hello 42" in said.out
    assert "Outcome: failed, reward 0.0" in said.out


def test_every_bundled_task_is_listed_and_described(rlvr: Call) -> None:
    rows = rlvr("list", "--json").lines

    assert len(rows) >= 12
    said = rlvr("describe", TASK, "--json")
    assert said.lines[0]["tools"][0]["name"] == "bash"
