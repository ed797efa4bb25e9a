"""How a living terminal differs from its snapshot, as potentials read it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from rlvr_envs.errors import ResetNeeded, SandboxError
from rlvr_envs.rewards.potential import Milestone, Milestones, changed, holds
from rlvr_envs.state import Diffable, StateDiff
from rlvr_envs.wrappers.potential import PotentialShaping
from tests.contract.conftest import MakeEnv
from tests.contract.worlds import SUBMIT, TASK, bash, run


def diff(env: Any) -> StateDiff:
    found: StateDiff = env.unwrapped.diff()
    return found


def test_a_diff_names_changes_collateral_and_contents(make: MakeEnv) -> None:
    env = make(task=TASK)
    env.reset()
    untouched = diff(env)

    run(env, "echo 5 > /app/out.txt; touch ~/stray /tmp/scratch; rm /app/absent")
    found = diff(env)

    assert isinstance(env.unwrapped, Diffable)
    assert untouched == StateDiff(facts={"sha256": {}})
    assert ("/app/out.txt", "added") in {(c.path, c.kind) for c in found.changes}
    assert found.collateral == ("/home/agent/stray",)
    assert found.facts["sha256"]["/app/out.txt"] == hashlib.sha256(b"5\n").hexdigest()
    assert "/home/agent/stray" not in found.facts["sha256"]


def test_links_and_huge_files_are_not_read(make: MakeEnv) -> None:
    env = make(task=TASK)
    env.reset()
    run(env, "ln -s /etc/passwd /app/link; mkfifo /app/pipe; truncate -s 2M /app/big")

    found = diff(env)

    assert {c.path for c in found.changes} >= {"/app/link", "/app/pipe", "/app/big"}
    assert found.facts["sha256"] == {}


def test_looking_changes_nothing_that_the_agent_sees(make: MakeEnv) -> None:
    env = make(task=TASK)
    commands = ["date +%s.%N; echo $RANDOM", "touch /app/a", "stat -c %Y /app/a; ps"]
    shown: list[list[Any]] = []
    for looks in (0, 3):
        env.reset(seed=5)
        shown.append([])
        for command in commands:
            shown[-1].append(run(env, command))
            for _ in range(looks):
                diff(env)

    assert shown[0] == shown[1]


def test_a_process_that_writes_all_the_time_breaks_nothing(make: MakeEnv) -> None:
    env = make(task=TASK)
    env.reset()
    run(env, "(while :; do mkdir -p /app/x/y; rm -rf /app/x; done) & echo on")

    for _ in range(200):
        diff(env)

    assert run(env, "kill %1; echo off")[0] == "off"


def test_a_branch_is_part_of_the_difference(make: MakeEnv) -> None:
    env, other = make(task=TASK), make(task=TASK)
    env.reset()
    run(env, "echo one > /app/note")
    branch = env.unwrapped.branch()  # type: ignore[attr-defined]
    other.reset(options={"start": branch})

    found = diff(other)

    assert found.facts["sha256"]["/app/note"] == hashlib.sha256(b"one\n").hexdigest()
    branch.close()


def test_a_diff_needs_an_episode(make: MakeEnv) -> None:
    with pytest.raises(ResetNeeded):
        diff(make(task=TASK))


def test_a_state_that_cannot_be_read_voids_the_episode(make: MakeEnv) -> None:
    potential = Milestones((Milestone("out", changed("/app/out.txt")),))
    env = PotentialShaping(make(task=TASK), potential=potential)
    env.reset()
    world = env.unwrapped._world  # type: ignore[attr-defined]
    world._sandbox = _Unreadable(world._sandbox)

    *_, terminated, truncated, info = env.step(bash("echo 1 > /app/out.txt"))

    assert (terminated, truncated, info["scorable"]) == (True, False, False)
    assert info["outcome"]["status"] == "infra_error"
    assert (info["potential"], info["shaping"]) == (0.0, 0.0)
    with pytest.raises(ResetNeeded):
        env.step(SUBMIT)
    assert env.reset()[1]["potential"] == 0.0


class _Unreadable:
    """A sandbox whose freezer is broken."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def freeze(self) -> None:
        raise SandboxError("The freezer is gone.")


FIVE = hashlib.sha256(b"5\n").hexdigest()
PHI = Milestones(
    (
        Milestone("program", changed("/app/sum.py")),
        Milestone("answer", holds("/app/out.txt", FIVE)),
    )
)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("submits", [True, False])
def test_shaping_telescopes_over_a_real_episode(
    make: MakeEnv, gamma: float, submits: bool
) -> None:
    commands = [
        "echo 4 > /app/out.txt",
        "echo 5 > /app/out.txt",
        "touch /app/sum.py",
        "rm /app/sum.py",
        "touch ~/stray",
        "rm ~/stray; touch /app/sum.py",
    ]
    actions = [bash(command) for command in commands] + [SUBMIT] * submits
    env = PotentialShaping(
        make(task=TASK, turns=len(actions)), potential=PHI, gamma=gamma
    )
    _, info = env.reset()

    infos = [info, *(env.step(action)[4] for action in actions)]

    seen = [item["potential"] for item in infos]
    assert seen[1:7] == [0.0, 0.5, 1.0, 0.5, 0.0, 1.0]
    total = sum(gamma**t * item["shaping"] for t, item in enumerate(infos[1:]))
    kept = 0.0 if submits else gamma ** len(actions) * seen[-1]
    assert total == pytest.approx(kept - seen[0])
    assert infos[-1]["outcome"]["reward"] == 0.0
