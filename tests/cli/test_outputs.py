from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import TOY, Call


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    file = tmp_path / "file.png"
    file.write_text("in the way")
    return file


@pytest.mark.parametrize(
    ("words", "place", "cause"),
    [
        (["run", "--env", TOY, "--out"], "file.png", "File exists"),
        (["run", "--env", TOY, "--out"], "file.png/runs", "Not a directory"),
        (["run", "--env", TOY, "--out"], "/proc/runs", "No such file"),
        (["run", "--env", TOY, "--no-record", "--plot"], ".", "No plot can be"),
        (["run", "--env", TOY, "--no-record", "--plot"], "a.txt", "No plot can be"),
        (["run", "--env", TOY, "--no-record", "--plot"], "/proc/a.png", "No such"),
        (["run", "--env", TOY, "--no-record", "--plot"], "file.png/a.png", "exists"),
        (["play", "--env", TOY, "--out"], "/proc/runs", "No such file"),
        (["attack", "--out"], "/proc/runs", "No such file"),
        (["learn", "--quick", "--plot"], "/proc/a.png", "No such file"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_played(
    rlvr: Call, taken: Path, words: list[str], place: str, cause: str
) -> None:
    said = rlvr(*words, taken.parent / place)

    assert said.status == 2
    assert cause in said.err
    assert said.err.count(" Remedy: ") == 1
    assert said.out == ""
    assert taken.read_text() == "in the way"


@pytest.mark.parametrize("command", ["run", "play"])
def test_a_seed_below_zero_is_refused_as_it_is_read(rlvr: Call, command: str) -> None:
    said = rlvr(command, "--env", TOY, "--seed", "-1")

    assert said.status == 2
    assert "--seed: a number from 0, not -1" in said.err
