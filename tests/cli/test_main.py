from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from rlvr_envs.cli import COMMANDS
from rlvr_envs.errors import CallerError
from tests.cli.conftest import TOY, Call

ROOT = Path(__file__).parents[2]


def test_help_names_every_command(rlvr: Call) -> None:
    said = rlvr("--help")

    assert said.status == 0
    assert all(name in said.out for name in COMMANDS)


def test_no_command_shows_help_and_is_misuse(rlvr: Call) -> None:
    said = rlvr()

    assert said.status == 2
    assert "usage: rlvr" in said.err
    assert said.out == ""


@pytest.mark.parametrize("words", [["fly"], ["run", "--fly"], ["run", "--group", "0"]])
def test_a_wrong_line_is_misuse(rlvr: Call, words: list[str]) -> None:
    said = rlvr(*words)

    assert said.status == 2
    assert said.out == ""
    assert said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--env", "no/Such-v0"], "no environment 'no/Such-v0'"),
        (["run", "--env", TOY, "--task", "none"], "Known: other, sum"),
        (["run", "--env", TOY, "--policy", "golden"], "Remedy: choose gold"),
        (["run", "--env", TOY, "--policy", "openai"], "Remedy: give --base-url"),
        (["replay", "/no/file.jsonl"], "cannot be read"),
        (["describe", "none", "--env", TOY], "no task 'none'"),
        (["play", "--env", TOY, "--script", "/no/file"], "cannot be read"),
        (["list", "--env", "rlvr/Nope-v0"], "no environment 'rlvr/Nope-v0'"),
        (["list", "--env", "rlvr/Terminal-v9"], "no environment 'rlvr/Terminal-v9'"),
        (["list", "--env", "/"], "Malformed environment ID"),
        (["list", "--tasks", "/nonexistent"], "is missing"),
        (["list", "--tasks", "/etc"], "holds no task"),
        (["describe", "x", "--sandbox", "nope"], "choose from docker, namespaces"),
        (["describe", "x", "--database", "x"], "takes no argument 'database'"),
        (["describe", "x", "--instance", "1", "--env", TOY], "no task 'x'"),
        (["bench", "step", "--store", "/proc/x"], ""),
        (["images", "build", "--store", "/proc/x"], "/proc/x"),
        (["images", "import", "/nonexistent"], "no file /nonexistent"),
        (["images", "export", "base", "/x", "--store", "/x"], "is not in the store"),
        (["import", "harbor", "/nonexistent"], "/nonexistent"),
        (["import", "quixbugs", "/nonexistent"], "/nonexistent"),
        (["import", "tau2", "/nonexistent"], "/nonexistent"),
        (["attack", "--catalogue", "/nonexistent"], "/nonexistent"),
        (["tickets", "/nonexistent"], "/nonexistent"),
        (["verify", "/nonexistent"], "/nonexistent"),
    ],
)
def test_a_callers_mistake_is_one_message_and_no_traceback(
    rlvr: Call, words: list[str], message: str
) -> None:
    said = rlvr(*words, "--json")

    assert said.status == 2
    assert message in said.err
    assert said.err.count(" Remedy: ") == 1
    assert ".." not in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (gym.error.Error("Seed is -1"), "Seed is -1. Remedy: see `rlvr list --help`"),
        (ValueError("Too far."), "Too far. Remedy: see `rlvr list --help`"),
        (PermissionError(13, "Permission denied", "/x"), "/x: Permission denied."),
        (CallerError("No.", remedy="yes"), "No. Remedy: yes\n"),
    ],
)
def test_every_error_of_a_command_is_told_with_a_remedy(
    rlvr: Call, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(_args: object) -> int:
        raise error

    monkeypatch.setattr("rlvr_envs.cli.listing.run", fail)
    answer = rlvr("list")

    assert answer.status == 2
    assert said in answer.err
    assert answer.err.count(" Remedy: ") == 1


def test_a_traceback_can_be_asked_for(rlvr: Call) -> None:
    said = rlvr("--traceback", "replay", "/no/file.jsonl")

    assert said.status == 2
    assert "Traceback" in said.err


@pytest.mark.parametrize("words", [["--json", "list"], ["list", "--json"]])
def test_shared_options_may_stand_anywhere(rlvr: Call, words: list[str]) -> None:
    said = rlvr(*words, "--env", TOY)

    assert said.status == 0
    assert [line["task"] for line in said.lines] == ["other", "sum"]


def process(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rlvr_envs", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_module_is_the_command_and_says_its_version() -> None:
    with process("--version") as child:
        out, _ = child.communicate(timeout=60)

    assert out.startswith("rlvr-envs ")
    assert child.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_cleanly(number: signal.Signals) -> None:
    with process("play", "--env", TOY, "--json") as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        child.send_signal(number)
        _, err = child.communicate(timeout=60)

    assert "Reach 10" in first
    assert child.returncode == 130
    assert err.strip() == "rlvr: interrupted"


def test_a_closed_pipe_is_no_error() -> None:
    with process(
        "run",
        "--env",
        TOY,
        "--group",
        "3000",
        "--no-record",
        "--json",
        "--policy",
        "null",
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr is not None
        err = child.stderr.read()
        child.wait(60)

    assert "Traceback" not in err
    assert child.returncode == 0


def test_a_command_loads_no_other_command() -> None:
    program = (
        "import sys, rlvr_envs.cli as cli; cli._parser('list');"
        "print([name for name in sys.modules if 'rlvr_envs.cli.' in name])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert "rlvr_envs.cli.listing" in done.stdout
    assert "rlvr_envs.cli.run" not in done.stdout
