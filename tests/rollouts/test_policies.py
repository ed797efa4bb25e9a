from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.errors import CallerError
from rlvr_envs.rollouts.episodes import Job, run_episode
from rlvr_envs.rollouts.policies import calls_from, named, submission
from tests.rollouts.toy import TOOLS, make_toy

ADD = {"name": "add", "arguments": {"n": 5}}


def actions(policy: str, seed: int = 0) -> Any:
    env = make_toy()
    run_episode(env, Job("sum", 0, seed, named(policy)))
    return env.get_wrapper_attr("last_trajectory").actions


def test_null_submits_at_once() -> None:
    assert actions("null") == ({"name": "submit", "arguments": {}},)


def test_random_is_the_same_for_a_seed_and_another_for_another() -> None:
    assert actions("random", seed=1) == actions("random", seed=1)
    assert actions("random", seed=1) != actions("random", seed=2)


@pytest.mark.parametrize("suffix", ["jsonl", "yaml"])
def test_a_script_is_played_and_then_submitted(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"calls.{suffix}"
    both = json.dumps([ADD, ADD])
    lines = f"{json.dumps(ADD)}\n\n{json.dumps(ADD)}\n"
    path.write_text(lines if suffix == "jsonl" else both)

    assert actions(f"script:{path}") == (ADD, ADD, submission(TOOLS))


def test_a_trajectory_is_a_script(tmp_path: Path) -> None:
    env = make_toy(record=tmp_path)
    run_episode(env, Job("sum", 0, 3, named("random")))
    path = env.get_wrapper_attr("trajectory_path")

    assert calls_from(path) == list(env.get_wrapper_attr("last_trajectory").actions)


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("a.jsonl", "{}\n", "a.jsonl:1"),
        ("a.jsonl", '{"name": "x"}\n{\n', "a.jsonl:2"),
        ("a.yaml", "- 3\n", "a.yaml: item 1"),
        ("a.yaml", "a: [\n", "a.yaml"),
        ("a.yaml", "a: 1\n", "expected a list"),
    ],
)
def test_a_broken_script_is_named_with_its_place(
    tmp_path: Path, name: str, text: str, where: str
) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(CallerError, match=where):
        calls_from(tmp_path / name)


@pytest.mark.parametrize("name", ["", "golden", "script", "script:", "null:x"])
def test_an_unknown_policy_lists_the_known_ones(name: str) -> None:
    with pytest.raises(CallerError, match="choose gold, null, random"):
        named(name)


def test_an_environment_that_cannot_submit_is_said_so() -> None:
    with pytest.raises(CallerError, match="no tool that submits"):
        submission(TOOLS[:1])
