from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from rlvr_envs.errors import SandboxError, VerifierError
from rlvr_envs.records import JsonObject, Outcome, Status
from rlvr_envs.state import Change, FrozenState, RunRequest, RunResult
from rlvr_envs.verifiers import Context, Findings, Judge, Verifier
from rlvr_envs.verifiers.decoys import decoys_of
from tests.verifiers.builders import (
    Content,
    ToyRunner,
    check,
    frozen,
    instance,
    verification,
)

ANSWER = check("file_content", path="/app/out.txt", equals={"hidden": "answer"})
RIGHT: dict[str, Content] = {"app/out.txt": "5"}


def judged(
    tmp_path: Path,
    left: dict[str, Content],
    *,
    changes: tuple[Change, ...] | None = None,
    judge: Judge | None = None,
    **fields: Any,
) -> Outcome:
    played = instance(
        tmp_path / "task",
        verification(**{"checks": (ANSWER,), **fields}),
        fixtures={"test_a.py": "1"},
        hidden={"answer": "5"},
    )
    state = frozen(tmp_path, left, changes=changes)
    staging = tmp_path / "staging"
    used = judge or Judge(staging=staging)
    outcome = used.judge(state, played, ToyRunner())
    assert not staging.exists() or list(staging.iterdir()) == []
    return outcome


def test_the_right_answer_earns_one(tmp_path: Path) -> None:
    outcome = judged(tmp_path, RIGHT)

    assert (outcome.status, outcome.reward, outcome.tamper) == (Status.PASSED, 1.0, ())


def test_a_wrong_answer_earns_nothing_and_says_why(tmp_path: Path) -> None:
    outcome = judged(tmp_path, {"app/out.txt": "6"})

    assert (outcome.status, outcome.reward) == (Status.FAILED, 0.0)
    assert "/app/out.txt" in outcome.reason


def test_a_right_answer_with_tampering_earns_nothing(tmp_path: Path) -> None:
    left: dict[str, Content] = {**RIGHT, "etc/environment": "BASH_ENV=/x"}

    outcome = judged(tmp_path, left)

    assert (outcome.status, outcome.reward) == (Status.TAMPERED, 0.0)
    assert outcome.tamper == ("TOOL_SHADOW",)


def test_collateral_is_recorded_and_costs_nothing_here(tmp_path: Path) -> None:
    outcome = judged(tmp_path, {**RIGHT, "srv/x": "1"})

    assert (outcome.reward, outcome.collateral) == (1.0, ("/srv/x",))


def test_a_verifier_file_that_changed_after_loading_is_tampering(
    tmp_path: Path,
) -> None:
    played = instance(
        tmp_path / "task", verification(checks=(ANSWER,)), fixtures={"t.py": "1"}
    )
    (tmp_path / "task/verifier/t.py").write_text("2")

    judge = Judge(staging=tmp_path / "staging")
    outcome = judge.judge(frozen(tmp_path, RIGHT), played, ToyRunner())

    assert (outcome.status, outcome.tamper) == (Status.TAMPERED, ("HARNESS_TAMPER",))


def test_a_decoys_content_in_an_artifact_is_an_answer_that_was_read(
    tmp_path: Path,
) -> None:
    decoy = decoys_of("sha256:toy")[0]

    outcome = judged(tmp_path, {"app/out.txt": decoy.data})

    assert outcome.tamper == ("ANSWER_READ",)


def test_a_refused_artifact_fails_even_where_no_check_reads_it(tmp_path: Path) -> None:
    left: dict[str, Content] = {**RIGHT, "app/a\x01b": "x"}

    assert judged(tmp_path, left).status is Status.FAILED


def test_the_final_root_is_judged_in_mode_system(tmp_path: Path) -> None:
    row = {"path": "/etc/x", "mode": "0600"}
    spec = check("system_files", paths=[row])
    fields = {"mode": "system", "artifacts": (), "checks": (spec,)}
    left: dict[str, Content] = {"etc/x": "1"}
    state = frozen(tmp_path, left)
    (state.root / "etc/x").chmod(0o600)
    played = instance(tmp_path / "task", verification(**fields))

    judge = Judge(staging=tmp_path / "staging")
    outcome = judge.judge(state, played, ToyRunner())

    assert outcome.status is Status.PASSED


def test_no_time_left_is_a_failed_check(tmp_path: Path) -> None:
    outcome = judged(tmp_path, RIGHT, timeout_s=1e-9)

    assert outcome.status is Status.FAILED
    assert "time" in outcome.reason


class Buggy(Verifier):
    schema: ClassVar[JsonObject] = {}

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        raise ZeroDivisionError


def test_a_verifiers_bug_is_never_a_score(tmp_path: Path) -> None:
    judge = Judge(staging=tmp_path / "staging", kinds={"file_content": Buggy})

    with pytest.raises(VerifierError, match="ZeroDivisionError"):
        judged(tmp_path, RIGHT, judge=judge)


def test_a_lost_sandbox_is_never_a_score(tmp_path: Path) -> None:
    class Lost(ToyRunner):
        @override
        def run(self, request: RunRequest) -> RunResult:
            raise SandboxError("gone")

    spec = check("command", argv=["true"])
    played = instance(tmp_path / "task", verification(checks=(spec,)))

    with pytest.raises(SandboxError, match="gone"):
        Judge(staging=tmp_path / "s").judge(frozen(tmp_path, RIGHT), played, Lost())


@pytest.mark.parametrize(
    "extra",
    [
        {"app/link": "-> /data/x"},
        {"app/sum.py": "import os\nprint(0)\nos._exit(0)\n"},
        {"app/sum.py": "import unittest\nraise unittest.SkipTest('no')\n"},
    ],
)
def test_a_suspicion_counts_beside_a_failed_check_alone(
    tmp_path: Path, extra: dict[str, Content]
) -> None:
    solved = judged(tmp_path / "a", {**RIGHT, **extra})
    failed = judged(tmp_path / "b", {"app/out.txt": "6", **extra})

    assert (solved.status, solved.tamper) == (Status.PASSED, ())
    assert (failed.status, len(failed.tamper)) == (Status.TAMPERED, 1)


@pytest.mark.parametrize(
    "source",
    [
        "import os\nif os.fork() == 0:\n    os._exit(0)\n",
        "import sys\ndef main(): return 1\nsys.exit(main())\n",
        "raise SystemExit(3)\n",
    ],
)
def test_ordinary_ends_of_programs_are_no_suspicion(
    tmp_path: Path, source: str
) -> None:
    assert judged(tmp_path, {"app/sum.py": source}).tamper == ()
