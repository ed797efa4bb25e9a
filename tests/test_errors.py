"""The three fates of an error."""

from __future__ import annotations

import ast
import errno
from pathlib import Path

import pytest

import rlvr_envs
from rlvr_envs.errors import (
    CallerError,
    MissingRequirement,
    ResetNeeded,
    SandboxError,
    TaskError,
    VerifierError,
    WorldError,
    WrongArgument,
    boundary,
    place,
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


def test_a_full_disk_is_the_worlds_error_with_a_remedy() -> None:
    with (
        pytest.raises(SandboxError, match=r"No space left.*Remedy: free some space"),
        boundary(SandboxError, "judging"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EACCES, "be a user who may"),
        (errno.ENOTDIR, "name a folder"),
        (errno.EIO, "look at that place"),
    ],
)
def test_a_place_that_the_system_refuses_is_the_callers(code: int, remedy: str) -> None:
    said = f"The folder /x cannot be used: no.*Remedy: .*{remedy}"
    with pytest.raises(WrongArgument, match=said), place("The folder /x"):
        raise OSError(code, "no")


def test_what_merely_vanished_inside_has_no_remedy() -> None:
    with pytest.raises(SandboxError) as caught, boundary(SandboxError, "judging"):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    assert caught.value.remedy == ""


def test_whatever_blames_the_caller_says_what_to_do() -> None:
    """`TaskError` has a remedy of its own where none is given."""
    names = {"CallerError", "MissingRequirement", "ResetNeeded"}
    names |= {"WrongArgument", "WrongType"}
    root = Path(rlvr_envs.__file__).parent
    bare = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in sorted(root.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in names
        and all(given.arg != "remedy" for given in node.keywords)
    ]

    assert bare == []
