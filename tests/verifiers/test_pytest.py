from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.errors import VerifierError
from rlvr_envs.records import Evidence, TamperCode
from rlvr_envs.state import Examination, RunRequest, RunResult
from rlvr_envs.verifiers.pytest import Pytest, import_root
from tests.verifiers.builders import (
    ToyRunner,
    check,
    context,
    frozen,
    passed,
    verification,
)


def findings(tmp_path: Path, found: Examination, **options: Any) -> Any:
    runner = ToyRunner(found=found)
    state = frozen(tmp_path, {})
    spec = check("pytest", tests=["test_a.py"], **options)
    return Pytest(spec).verify(state, context(tmp_path, state.root, runner=runner))


def test_evidence_travels_with_the_checks(tmp_path: Path) -> None:
    proof = Evidence(TamperCode.TYPE_SPOOF, "test_a.py::test_x", "posed as 3")
    found = findings(tmp_path, Examination(("a",), (), (proof,)))

    assert found.evidence == (proof,)
    assert not all(item.passed for item in found.checks)


@pytest.mark.parametrize(
    "found",
    [
        Examination(fault="Traceback ..."),
        Examination(trouble="test_a.py: SyntaxError: invalid syntax"),
        Examination(trouble="test_a.py: ModuleNotFoundError: No module named 'x'"),
    ],
)
def test_a_broken_test_is_the_judges_fault(tmp_path: Path, found: Examination) -> None:
    with pytest.raises(VerifierError):
        findings(tmp_path, found)


def test_a_test_file_that_trips_over_the_submission_is_a_failed_check(
    tmp_path: Path,
) -> None:
    trouble = Examination(trouble="test_a.py: FileNotFoundError: /app/out.txt")

    assert not findings(tmp_path, trouble).checks[0].passed


def test_a_runner_that_cannot_examine_is_the_judges_fault(tmp_path: Path) -> None:
    class Plain:
        def run(self, request: RunRequest) -> RunResult:
            raise AssertionError

    state = frozen(tmp_path, {})
    bare: Any = Plain()

    with pytest.raises(VerifierError, match="cannot examine"):
        Pytest(check("pytest", tests=["test_a.py"])).verify(
            state, context(tmp_path, state.root, runner=bare)
        )


@pytest.mark.parametrize(
    ("artifacts", "root"),
    [
        (("/app",), "/app"),
        (("/app/sum.py", "/app/out.txt"), "/app"),
        (("/app/a/x.py", "/app/b/y.py"), "/app"),
        (("/srv/x.py", "/app"), "/"),
        ((), "/"),
    ],
)
def test_modules_are_imported_from_what_the_artifacts_share(
    artifacts: tuple[str, ...], root: str
) -> None:
    assert import_root(verification(artifacts=artifacts)) == root


def test_pinned_ids_are_expected(tmp_path: Path) -> None:
    assert all(c.passed for c in findings(tmp_path, passed("a"), expected=["a"]).checks)
    assert not all(
        c.passed for c in findings(tmp_path, passed("a"), expected=["b"]).checks
    )
