from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rlvr_envs.errors import CallerError, SnapshotError
from rlvr_envs.rollouts.episodes import Job, run_episode
from rlvr_envs.rollouts.policies import named
from rlvr_envs.rollouts.replay import (
    Difference,
    first_difference,
    make,
    recorded_replays,
    replay_all,
    replay_one,
)
from rlvr_envs.trajectories.store import read
from tests.rollouts.toy import make_toy

TOY = "tests.rollouts.toy:toy/Sum-v0"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let spawned workers import the toy."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))


def record(folder: Path, **kwargs: Any) -> Path:
    env = gym.make(TOY, record=str(folder), **kwargs)
    result = run_episode(env, Job("sum", 2, 3, named("random")))
    assert result.trajectory is not None
    return result.trajectory


def test_replays_in_fresh_processes_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    path = str(record(tmp_path))
    replays = recorded_replays(path, 6, env=TOY)
    done: list[str] = []

    results = list(replay_all(replays, workers=2, done=lambda c: done.append(c.path)))

    assert [item.difference for item in results] == [None] * 6
    assert done == [path] * 6


def test_a_difference_is_named_by_turn_and_field(tmp_path: Path) -> None:
    path = str(record(tmp_path, drift=True))

    (result,) = replay_all(recorded_replays(path, 1, env=TOY))

    assert result.difference is not None
    assert (result.difference.turn, result.difference.field) == (1, "observation")


def test_another_digest_is_an_error_and_no_difference(tmp_path: Path) -> None:
    path = str(record(tmp_path))
    replays = recorded_replays(path, 1, env=TOY, kwargs={"world": "sha256:new"})

    with pytest.raises(SnapshotError, match=r"another snapshot.*sha256:one.*Remedy"):
        list(replay_all(replays))


@pytest.mark.parametrize("option", ["start", "confinement"])
def test_what_cannot_be_recorded_cannot_be_replayed(
    tmp_path: Path, option: str
) -> None:
    path = record(tmp_path)
    text = path.read_text()
    path.write_text(text.replace('"options":{', f'"options":{{"{option}":"<Object>",'))

    with pytest.raises(CallerError, match=f"with the option {option!r}"):
        replay_one(make_toy(), read(path))


def test_an_unknown_environment_is_the_callers_mistake(tmp_path: Path) -> None:
    path = str(record(tmp_path))

    with pytest.raises(CallerError, match="no environment 'toy/Gone-v0'"):
        list(replay_all(recorded_replays(path, 1, env="toy/Gone-v0")))
    with pytest.raises(CallerError, match="leave out"):
        make(TOY, {"sandbox": "docker"})
    with pytest.raises(CallerError, match="module:id"):
        make("no_such_module:toy/Sum-v0", {})


def test_a_file_without_a_reset_cannot_be_replayed(tmp_path: Path) -> None:
    path = record(tmp_path)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])

    with pytest.raises(CallerError, match="no reset"):
        replay_one(make_toy(), read(path))


def test_a_torn_file_is_replayed_as_far_as_it_goes(tmp_path: Path) -> None:
    path = record(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 3 // 4])

    assert replay_one(make_toy(), read(path)).difference is None


def test_a_turn_that_timed_out_is_not_compared(tmp_path: Path) -> None:
    path = record(tmp_path)
    slow = [
        line.replace('"timed_out":false', '"timed_out":true').replace("total", "sum")
        if '"kind":"turn"' in line
        else line
        for line in path.read_text().splitlines(keepends=True)
    ]
    path.write_text("".join(slow))

    comparison = replay_one(make_toy(), read(path))

    assert comparison.difference is None
    assert comparison.exempt == len(read(path).turns)


@pytest.mark.parametrize(
    ("one", "other", "field"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "b"),
        ({"info": {"x": {"y": 1}}}, {"info": {"x": {"y": 2}}}, "info.x.y"),
        ({"a": 1}, {"a": 1, "b": 2}, "b"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "a"),
    ],
)
def test_the_first_differing_part_is_found(one: Any, other: Any, field: str) -> None:
    assert first_difference("", one, other)[0] == field


def test_a_difference_is_plain_data() -> None:
    assert Difference(1, "reward", 0.0, 1.0).to_json() == {
        "turn": 1,
        "field": "reward",
        "recorded": 0.0,
        "replayed": 1.0,
    }
