from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from rlvr_envs.state import RunRequest, RunResult
from rlvr_envs.verifiers.command import WORK, Command
from tests.verifiers.builders import ToyRunner, check, context, frozen


def findings(tmp_path: Path, runner: ToyRunner, **options: Any) -> list[bool]:
    spec = check("command", **{"argv": ["cargo", "test"], **options})
    state = frozen(tmp_path, {})
    found = Command(spec).verify(state, context(tmp_path, state.root, runner=runner))
    return [item.passed for item in found.checks]


def test_the_expected_status_passes_and_another_does_not(tmp_path: Path) -> None:
    three = ToyRunner(RunResult(3, b"", b"boom"))

    assert findings(tmp_path, ToyRunner()) == [True]
    assert findings(tmp_path, three) == [False]
    assert findings(tmp_path, three, expect_status=3) == [True]


def test_a_hang_is_a_failed_check(tmp_path: Path) -> None:
    hung = ToyRunner(RunResult(-1, b"", b"", timed_out=True))

    assert findings(tmp_path, hung) == [False]


@pytest.mark.parametrize(
    ("options", "held"),
    [
        ({"expect_stdout": [r"^test a \.\.\. ok$"]}, True),
        ({"expect_stdout": [r"^test c \.\.\. ok$"]}, False),
        ({"count": {"pattern": r"^test \w+ \.\.\. ok$", "expected": 2}}, True),
        ({"count": {"pattern": r"^test \w+ \.\.\. ok$", "expected": 3}}, False),
    ],
)
def test_output_is_counted(
    tmp_path: Path, options: dict[str, Any], *, held: bool
) -> None:
    runner = ToyRunner(RunResult(0, b"test a ... ok\ntest b ... ok\n", b""))

    assert findings(tmp_path, runner, **options) == [held]


class Speaking(ToyRunner):
    """Writes a verdict as a checker would, and lets a test spoil it."""

    spoil: Any = staticmethod(lambda data: data)

    @override
    def run(self, request: RunRequest) -> RunResult:
        rows = [{"name": "a", "passed": True, "reason": ""}]
        data = {"nonce": request.env["RLVR_NONCE"], "checks": rows}
        return RunResult(0, b"", b"", verdict=self.spoil(data))


def test_a_verdict_with_the_nonce_counts(tmp_path: Path) -> None:
    runner = Speaking()
    runner.spoil = lambda data: json.dumps(data).encode()

    assert findings(tmp_path, runner, verdict=True) == [True, True]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _data: b"",
        lambda data: json.dumps({**data, "nonce": "guess"}).encode(),
        lambda data: json.dumps({**data, "checks": []}).encode(),
        lambda data: json.dumps(data).encode() * 2,
        lambda data: json.dumps(data).replace("true", "1").encode(),
        lambda data: json.dumps(data).replace("{", '{"nonce": "x", ', 1).encode(),
    ],
    ids=["none", "other nonce", "empty", "twice", "no boolean", "key twice"],
)
def test_a_forged_verdict_fails(tmp_path: Path, spoil: Any) -> None:
    runner = Speaking()
    runner.spoil = spoil

    assert findings(tmp_path, runner, verdict=True)[1:] == [False]


def test_the_command_gets_a_working_folder_with_a_copy(tmp_path: Path) -> None:
    runner = ToyRunner()

    findings(tmp_path, runner, copy="/app", user=0, final_root=True, timeout_s=5)

    (request,) = runner.runs
    assert request.argv[-4:] == (WORK, "/submission/app", "cargo", "test")
    assert (request.user, request.final_root, request.timeout_s) == (0, True, 5.0)
    assert request.verdict_fd is False
