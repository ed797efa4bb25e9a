"""Jobs for an examiner on the real backend."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rlvr_envs.records import Places, Snapshot
from rlvr_envs.sandbox.base import VERIFIER_IDS, SandboxSpec
from rlvr_envs.sandbox.examiner import ZygotePool
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from rlvr_envs.sandbox.runner import SUBMISSION, PristineRunner
from rlvr_envs.state import Examination, ExamineRequest

TESTS = """
import subprocess
import pytest

@pytest.mark.parametrize("a", [1, 2])
def test_add(candidate, hidden, a):
    assert candidate.call("sol", "add", a, hidden["two"]) == a + 2

def test_run(candidate, tmp_path):
    file = tmp_path / "n.txt"
    file.write_text("1\\n2\\n")
    done = candidate.run(["python3", "total.py", file], stdin="x")
    assert (done.status, done.stdout) == (0, "3\\n"), done.stderr

def test_shell_out(tmp_path):
    file = tmp_path / "n.txt"
    file.write_text("4\\n")
    done = subprocess.run(["python3", "/app/total.py", file], capture_output=True)
    assert done.stdout == b"4\\n"
"""
ADD = "def add(a, b):\n    return a + b\n"
TOTAL = "import sys\nprint(sum(map(int, open(sys.argv[1]))))\n"
HONEST = {"sol.py": ADD, "total.py": TOTAL}


class Bench:
    """A runner, and folders for one job after another."""

    def __init__(self, runner: PristineRunner, pool: ZygotePool, folder: Path) -> None:
        self.runner = runner
        self.pool = pool
        self.folder = folder
        self.count = 0

    def examine(
        self,
        submission: Mapping[str, str],
        tests: str = TESTS,
        *,
        test_timeout_s: float = 10.0,
        timeout_s: float = 60.0,
        **fixtures: str,
    ) -> Examination:
        self.count += 1
        job = self.folder / str(self.count)
        held = {"test_sol.py": tests, "hidden.json": '{"two": 2}'}
        held |= {name.replace("__", "."): text for name, text in fixtures.items()}
        for top, tree in (("verifier", held), ("submission/app", submission)):
            for name, text in tree.items():
                path = job / top / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(textwrap.dedent(text))
        (job / "submission").mkdir(exist_ok=True)
        request = ExamineRequest(
            fixtures=job / "verifier",
            submission=job / "submission",
            tests=("test_sol.py",),
            import_from="/app",
            links=("/app",),
            test_timeout_s=test_timeout_s,
            timeout_s=timeout_s,
        )
        return self.runner.examine(request)


def outcomes(found: Examination) -> set[str]:
    return {test.outcome for test in found.tests}


def codes(found: Examination) -> set[str]:
    return {str(item.code) for item in found.evidence}


@pytest.fixture(scope="module")
def pool(
    namespaces: type[NamespaceSandbox], base_snapshot: Snapshot, places: Places
) -> Iterator[ZygotePool]:
    """Warm examiners, for all tests of a module."""
    spec = SandboxSpec(base_snapshot, id_base=VERIFIER_IDS, targets=(SUBMISSION,))
    made = ZygotePool(lambda: namespaces(spec, places))
    yield made
    made.close()


@pytest.fixture
def bench(
    namespaces: type[NamespaceSandbox],
    base_snapshot: Snapshot,
    places: Places,
    pool: ZygotePool,
    tmp_path: Path,
) -> Bench:
    """A runner whose examiners are warm."""
    runner = PristineRunner(
        lambda spec: namespaces(spec, places), pristine=base_snapshot, pool=pool
    )
    return Bench(runner, pool, tmp_path)
