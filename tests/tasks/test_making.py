"""Words for generators."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rlvr_envs.seeding import generator
from rlvr_envs.tasks.making import Commit, folder, pick, picks, repository, text, whole

COMMITS = [
    Commit("Begin", {"a.txt": "one\n", "b/c.txt": "é\n"}, 1_700_000_000),
    Commit("Go on", {"a.txt": "two\n", "b/c.txt": None}, 1_700_000_500),
]


def test_choices_are_plain_values() -> None:
    rng = generator("making")

    assert type(pick(rng, [1, 2])) is int
    assert type(whole(rng, 3, 3)) is int
    assert sorted(picks(rng, ["a", "b", "c"], 3)) == ["a", "b", "c"]
    assert whole(rng, 3, 3) == 3


def test_files_belong_to_the_agent_unless_told_otherwise() -> None:
    assert (text("/a", "é").data, text("/a", "").user) == (b"\xc3\xa9", 1000)
    assert (folder("/a").kind, folder("/a", user=0).user) == ("dir", 0)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A repository that was built here, by the setup commands, as the present user."""
    where = tmp_path / "repo"
    spec, setup = repository(str(where), COMMITS)
    stream = tmp_path / "stream"
    stream.write_bytes(spec.data)
    script = setup[0][2].replace(spec.path, str(stream))
    lines = [line for line in script.splitlines() if not line.startswith("chown")]
    script = "\n".join(lines).replace(f"&& chown 0:0 {where} ", "")
    subprocess.run(["bash", "-c", script], check=True, cwd=tmp_path)
    return where


def git(where: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", *args],
        cwd=where, capture_output=True, check=True, text=True,
    )  # fmt: skip
    return done.stdout


def test_a_history_is_built_as_told(built: Path) -> None:
    assert git(built, "log", "--format=%s %at %ct").splitlines() == [
        "Go on 1700000500 1700000500",
        "Begin 1700000000 1700000000",
    ]
    assert (built / "a.txt").read_text() == "two\n"
    assert not (built / "b").exists()
    assert git(built, "status", "--short") == ""


def test_a_history_has_the_same_name_everywhere(built: Path) -> None:
    assert git(built, "rev-parse", "HEAD").strip() == (
        "4d7a4ea8da5bb088c9f95a4529ec87dcecd58f5f"
    )


def test_nothing_but_the_history_is_left(built: Path) -> None:
    left = {path.name for path in (built / ".git").iterdir()}

    assert git(built, "fsck", "--unreachable", "--no-reflogs") == ""
    assert not left & {"logs", "hooks", "ORIG_HEAD", "FETCH_HEAD"}
    assert git(built, "count-objects", "-v").splitlines()[0] == "count: 0"
    assert not (built.parent / "stream").exists()
