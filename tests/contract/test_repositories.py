"""What an agent finds in a task's repository: the history it may see, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.conftest import MakeEnv
from tests.contract.worlds import run

TASK = "regression-hunt"

EMPTY = (
    "git --no-pager reflog",
    "git stash list",
    "git tag",
    "git remote -v",
    "git fsck --unreachable --no-reflogs",
    "git --no-pager log --all -S 'def fixed_fn' --oneline",
    "grep -ra 'fixed_fn' .git",
    "ls .git | grep -E '^(ORIG_HEAD|FETCH_HEAD|logs|hooks)$'",
    "git status --short",
)


@pytest.fixture
def repository(make: MakeEnv) -> Any:
    env = make(task=TASK)
    env.reset()
    return env


@pytest.mark.parametrize("command", EMPTY)
def test_a_look_for_more_finds_nothing(repository: Any, command: str) -> None:
    shown, _ = run(repository, f"{command} | head -3 | sed 's/^/found: /'")

    assert "found:" not in shown


def test_all_objects_are_of_the_history(repository: Any) -> None:
    branches, _ = run(repository, "git branch -a --format='%(refname)'")
    reached, _ = run(repository, "git rev-list --objects HEAD | wc -l")
    packed, _ = run(
        repository,
        "git verify-pack -v .git/objects/pack/*.idx | grep -cE '^[0-9a-f]{40}'",
    )

    assert branches.strip() == "refs/heads/main"
    assert int(reached) == int(packed) > 20
