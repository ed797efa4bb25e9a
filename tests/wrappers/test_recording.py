from __future__ import annotations

import json
import os
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env
from typing_extensions import override

from rlvr_envs.errors import CallerError, SandboxError
from rlvr_envs.trajectories.encoding import encode
from rlvr_envs.trajectories.record import Ending, Kind
from rlvr_envs.trajectories.store import read
from rlvr_envs.wrappers.recording import RecordingWarning, RecordTrajectory
from tests.rollouts.toy import Toy, make_toy

ADD = {"name": "add", "arguments": {"n": 10}}
SUBMIT = '{"name": "submit", "arguments": {}}'


def recorded(folder: Path | None, **kwargs: Any) -> RecordTrajectory:
    return RecordTrajectory(Toy(**kwargs), folder=folder)


def play(env: RecordTrajectory, *actions: Any) -> list[Any]:
    env.reset(seed=7, options={"task": "sum", "instance": 0})
    return [env.step(action) for action in actions]


def test_an_episode_is_on_disk_when_its_last_step_returns(tmp_path: Path) -> None:
    env = recorded(tmp_path)
    play(env, ADD, SUBMIT)

    (path,) = tmp_path.glob("*.jsonl")
    trajectory = read(path)

    assert trajectory.complete
    assert path == env.trajectory_path
    assert path.name.startswith("sum.i0.s7.")
    assert trajectory.actions == (ADD, SUBMIT)
    assert trajectory.turns[1].call == {"name": "submit", "arguments": {}}
    assert trajectory.turns[1].channels == {"outcome": 1.0, "path": 0.0}
    assert trajectory.footer["ending"] == Ending.TERMINATED
    assert trajectory.outcome["status"] == "passed"


def test_the_header_says_what_was_played_on_which_digests(tmp_path: Path) -> None:
    env = recorded(tmp_path)
    play(env, SUBMIT)

    header = env.last_trajectory.header

    assert (header["schema"], header["task"], header["seed"]) == (1, "sum", 7)
    assert header["provenance"]["snapshot"] == "sha256:one"
    assert header["stack"] == ["Toy"]
    assert [tool["function"]["name"] for tool in header["tools"]] == ["add", "submit"]
    assert header["tools"][0]["category"] == "mutate"


def test_every_line_is_as_encode_writes_it(tmp_path: Path) -> None:
    env = recorded(tmp_path)
    for _ in range(2):
        env.reset(seed=7)
        assert env.trajectory_path is not None
        lines = env.trajectory_path.read_bytes().splitlines()

        assert lines
        assert [encode(json.loads(line)) for line in lines] == lines
    env.close()


def test_the_header_holds_what_make_was_given_but_no_host_folder(
    tmp_path: Path,
) -> None:
    env = gym.make("toy/Sum-v0", record=str(tmp_path), world="sha256:two")
    env.reset(seed=1)

    header = env.get_wrapper_attr("last_trajectory").header

    assert header["env"] == "toy/Sum-v0"
    assert header["kwargs"] == {"world": "sha256:two"}
    env.close()


def test_timings_stand_on_lines_of_their_own() -> None:
    env = recorded(None)
    play(env, ADD)

    trajectory = env.last_trajectory

    timings = list(trajectory.of(Kind.TIMING))
    reset, step = (line["seconds"] for line in timings)
    assert (reset["reset"], step["step"]) == (0.25, 0.5)
    assert reset["whole_s"] > 0
    assert step["whole_s"] > 0
    assert not any(b"seconds" in line for line in trajectory.compared())


def test_each_turn_is_on_disk_before_the_next(tmp_path: Path) -> None:
    env = recorded(tmp_path)
    play(env, ADD)

    (path,) = tmp_path.glob("*.jsonl")

    assert len(read(path).turns) == 1
    assert not read(path).complete


def test_without_a_folder_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = recorded(None)
    play(env, ADD, SUBMIT)

    assert env.last_trajectory.complete
    assert env.trajectory_path is None
    assert list(tmp_path.iterdir()) == []


def test_what_a_caller_does_to_info_does_not_reach_the_record() -> None:
    env = recorded(None)
    (result,) = play(env, ADD)
    result[4]["tool"] = "changed"

    assert env.last_trajectory.turns[0].info["tool"] == "add"


class Scored(Toy):
    """Ends with the score of a ticket."""

    @override
    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated:
            info["outcome"]["details"] = {"ticket": {"final": 0.31, "raw": 0.31}}
        return observation, reward, terminated, truncated, info


def test_a_tickets_score_stands_beside_its_trajectory(tmp_path: Path) -> None:
    env = RecordTrajectory(Scored(), folder=tmp_path)
    play(env, ADD, SUBMIT)

    (path,) = tmp_path.glob("*.score.json")

    assert json.loads(path.read_text()) == {"final": 0.31, "raw": 0.31}
    assert env.trajectory_path == path.with_name(
        path.name.replace(".score.json", ".jsonl")
    )
    assert path.read_text().startswith('{\n  "final": 0.31')


def test_an_episode_without_a_ticket_leaves_no_score(tmp_path: Path) -> None:
    play(recorded(tmp_path), ADD, SUBMIT)
    play(RecordTrajectory(Scored(), folder=None), ADD, SUBMIT)

    assert list(tmp_path.glob("*.score.json")) == []


def test_an_abandoned_episode_ends_as_abandoned(tmp_path: Path) -> None:
    env = recorded(tmp_path)
    play(env, ADD)
    env.reset(seed=8)
    env.close()
    env.close()

    endings = {read(path).footer["ending"] for path in tmp_path.glob("*.jsonl")}

    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    assert endings == {Ending.ABANDONED}


def test_a_broken_world_ends_the_record_and_still_raises() -> None:
    env = recorded(None, broken=1)
    env.reset(seed=1)
    with pytest.raises(SandboxError):
        env.step(ADD)

    assert env.last_trajectory.footer["ending"] == Ending.BROKEN


def test_messages_of_the_policy_are_kept_and_never_compared() -> None:
    env = recorded(None)
    play(env, ADD)
    env.annotate(Kind.MESSAGE, {"role": "assistant", "content": "hm"})

    (message,) = env.last_trajectory.of(Kind.MESSAGE)
    assert message["content"] == "hm"
    assert len(env.last_trajectory.compared()) == 2


@pytest.mark.parametrize("action", [b"\xff", None, {"name": 3}, "{", float("nan")])
def test_any_action_can_be_recorded(action: Any) -> None:
    class Deaf(Toy):
        @override
        def step(self, action: Any) -> Any:
            return "what?", 0.0, False, False, {}

    env = RecordTrajectory(Deaf())
    env.reset()
    env.step(action)

    assert env.last_trajectory.turns[0].call == {}


@pytest.mark.parametrize("place", ["file/runs", "file", "/proc/runs"])
def test_a_folder_that_cannot_be_made_is_raised_by_the_first_reset(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    env = recorded(tmp_path / place)

    with pytest.raises(CallerError, match="can write to"):
        env.reset(seed=1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets root mount nothing")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_costs_a_warning_and_no_episode(small_disk: Path) -> None:
    env = recorded(small_disk, turns=500)
    env.reset(seed=1)
    one = {"name": "add", "arguments": {"n": 1}}
    with pytest.warns(RecordingWarning, match=r"No space left.*Remedy") as caught:
        _ = [env.step(one) for _ in range(100)]

    (path,) = small_disk.glob("*.jsonl")
    assert len(caught) == 1
    assert "No space" in env.recording_problem
    assert path.read_bytes().endswith(b"\n")
    assert 0 < len(read(path).turns) < 100
    assert len(env.last_trajectory.turns) == 100


def test_the_next_episode_is_written_again_when_there_is_room(
    small_disk: Path,
) -> None:
    blocker = small_disk / "blocker"
    blocker.write_bytes(b"x" * 12288)
    env = recorded(small_disk)
    with pytest.warns(RecordingWarning):
        play(env, ADD, SUBMIT)
    blocker.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        play(env, ADD, SUBMIT)

    assert env.trajectory_path is not None
    assert read(env.trajectory_path).complete


def test_the_environment_checker_has_no_complaint(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*different from the unwrapped")
        check_env(make_toy(record=tmp_path), skip_render_check=True)


def test_a_recorder_is_built_again_from_its_spec(tmp_path: Path) -> None:
    env = recorded(tmp_path)

    assert env._saved_kwargs == {"folder": tmp_path}


def test_lines_are_json_objects_with_a_kind(tmp_path: Path) -> None:
    env = recorded(tmp_path)
    play(env, ADD, SUBMIT)

    (path,) = tmp_path.glob("*.jsonl")
    kinds = [json.loads(line)["kind"] for line in path.read_bytes().splitlines()]

    assert kinds == [
        "header",
        "reset",
        "timing",
        "turn",
        "timing",
        "turn",
        "timing",
        "footer",
    ]


def test_a_reset_that_fails_shows_no_earlier_episode(tmp_path: Path) -> None:
    env = recorded(tmp_path)
    play(env, ADD, SUBMIT)
    with pytest.raises(ValueError, match="no task"):
        env.reset(options={"task": "gone"})

    assert env.trajectory_path is None
    assert env.last_trajectory.lines == ()
