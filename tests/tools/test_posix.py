"""What a program's arguments can be."""

from __future__ import annotations

import subprocess

import pytest

from rlvr_envs.tools.posix import MAX_ARGV_BYTES, check_argv, check_path, check_text


@pytest.mark.parametrize("argv", [["true"], ["true", ""], ["a b", "\n", "é😀"]])
def test_ordinary_arguments_pass(argv: list[str]) -> None:
    assert check_argv(argv) == ""


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([], "names no program"),
        ([""], "names no program"),
        (["a", "b\0"], r"argv[1] holds a NUL byte"),
        (["a", "x" * MAX_ARGV_BYTES], "Argument list too long"),
        (["a"] * MAX_ARGV_BYTES, "Argument list too long"),
    ],
)
def test_what_execve_refuses_is_complained_of(argv: list[str], reason: str) -> None:
    assert reason in check_argv(argv)


def test_the_longest_list_that_passes_is_one_that_the_kernel_takes() -> None:
    argv = ["true", "x" * (MAX_ARGV_BYTES - 5 - 1 - 16)]

    assert check_argv(argv) == ""
    assert check_argv([argv[0], argv[1] + "x"]) != ""
    subprocess.run(argv, check=True)


@pytest.mark.parametrize("path", ["/", "a", "-n", "a b\n", "é" * 127, "a/" * 2000])
def test_ordinary_paths_pass(path: str) -> None:
    assert check_path(path, "path") == ""


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "path is empty"),
        ("a\0", "NUL"),
        ("é" * 128, "File name too long"),
        ("a/" * 2048, "File name too long"),
    ],
)
def test_paths_that_no_call_takes_are_complained_of(path: str, reason: str) -> None:
    assert reason in check_path(path, "path")


def test_a_shells_input_holds_no_nul() -> None:
    assert check_text("a\nb", "command") == ""
    assert check_text("a\0b", "command") == "command holds a NUL byte."
