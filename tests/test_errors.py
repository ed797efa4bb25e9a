"""The three fates of an error."""

from __future__ import annotations

import pytest

from rlvr_envs.errors import (
    CallerError,
    MissingRequirement,
    ResetNeeded,
    SandboxError,
    TaskError,
    VerifierError,
    WorldError,
    boundary,
)


def test_a_boundary_turns_a_surprise_into_the_worlds_error() -> None:
    with (
        pytest.raises(VerifierError, match="while counting: ZeroDivisionError"),
        boundary(VerifierError, "counting"),
    ):
        _ = 1 // 0


def test_a_boundary_leaves_our_own_errors_as_they_are() -> None:
    with pytest.raises(SandboxError), boundary(VerifierError, "counting"):
        raise SandboxError("gone")


def test_a_task_error_names_file_line_and_remedy() -> None:
    error = TaskError("no title", file="t/task.yaml", line=3, remedy="Add one.")

    assert str(error) == "t/task.yaml:3: no title Remedy: Add one."


def test_worlds_and_callers_errors_are_apart() -> None:
    assert not issubclass(WorldError, CallerError)
    assert issubclass(ResetNeeded, RuntimeError)
    assert issubclass(MissingRequirement, CallerError)
