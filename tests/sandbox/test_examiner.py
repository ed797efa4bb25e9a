"""Warm examiners on the real backend: honest submissions pass, hostile ones do not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rlvr_envs.errors import SandboxError
from rlvr_envs.records import Places, Snapshot
from rlvr_envs.sandbox.base import VERIFIER_IDS, SandboxSpec
from rlvr_envs.sandbox.examiner import ZygotePool
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from rlvr_envs.sandbox.runner import SUBMISSION, PristineRunner
from tests.sandbox.examining import (
    HONEST,
    TOTAL,
    Bench,
    bench,
    codes,
    outcomes,
    pool,
)

__all__ = ["bench", "pool"]


def honest(bench: Bench) -> bool:
    found = bench.examine(HONEST)
    return outcomes(found) == {"passed"} and len(found.tests) == 4 and not codes(found)


def test_an_honest_submission_passes_every_way_of_testing(bench: Bench) -> None:
    found = bench.examine(HONEST)

    assert found.trouble == found.fault == ""
    assert found.collected == (
        "test_sol.py::test_add[1]",
        "test_sol.py::test_add[2]",
        "test_sol.py::test_run",
        "test_sol.py::test_shell_out",
    )
    assert [test.outcome for test in found.tests] == ["passed"] * 4
    assert found.evidence == ()


def test_one_zygote_serves_many_jobs(bench: Bench) -> None:
    assert honest(bench)
    before = bench.pool.started

    assert all(honest(bench) for _job in range(3))
    assert bench.pool.started == before


SPOOF = "class A:\n    def __eq__(self, other):\n        return True\n"
ATTACKS = {
    "leaves at import": ("import os\nos._exit(0)\n", {"EARLY_EXIT"}),
    "leaves by exception": ("raise SystemExit(0)\n", {"EARLY_EXIT"}),
    "leaves when called": ("def add(a, b):\n    import os; os._exit(0)\n", {"EARLY_EXIT"}),
    "skips": ("import unittest\ndef add(a, b): raise unittest.SkipTest('no')\n", set()),
    "skips by pytest": ("import pytest\npytest.skip('no', allow_module_level=True)\n", set()),
    "equals everything": (SPOOF + "def add(a, b): return A()\n", {"TYPE_SPOOF"}),
    "hides in a list": (SPOOF + "def add(a, b): return [A()]\n", {"TYPE_SPOOF"}),
    "patches the runner": (
        "import sys\nsys.modules['_pytest.runner'].CallInfo.from_call = None\n"
        "def add(a, b): return 0\n",
        {"HARNESS_TAMPER"},
    ),
    "patches it unseen": (
        "m = __import__('sys').modules['_py' + 'test.runner']\n"
        "m.__dict__['call_and_report'] = None\ndef add(a, b): return 0\n",
        {"HARNESS_TAMPER"},
    ),
    "walks the stack": (
        "import sys\ndef add(a, b): return sys._getframe(1).f_locals['expected']\n",
        {"ANSWER_READ"},
    ),
    "forges a frame": (
        "import os\ndef add(a, b):\n    for fd in range(3, 30):\n"
        "        try: os.write(fd, b'\\0\\0\\0\\2{}')\n        except OSError: pass\n",
        {"TYPE_SPOOF"},
    ),
    "crashes": ("import os\nos.abort()\n", set()),
    "kills": ("import os\nos.kill(-1, 9)\ndef add(a, b): return 0\n", set()),
    "reads the tests": ("def add(a, b): return open('/verifier/test_sol.py').read()\n", set()),
    "exhausts memory": ("x = []\nwhile True: x.append(bytearray(1 << 20))\n", set()),
    "fills the disk": (
        "def add(a, b):\n    for i in range(99):\n"
        "        open(f'/tmp/{i}', 'wb').write(b'x' * (8 << 20))\n",
        set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), ATTACKS.values(), ids=ATTACKS.keys())
def test_an_attack_fails_is_flagged_and_harms_nobody_after_it(
    bench: Bench, source: str, expected: set[str]
) -> None:
    found = bench.examine({**HONEST, "sol.py": source})

    added = [test for test in found.tests if "test_add" in test.id]
    assert [test.outcome for test in added] == ["failed", "failed"]
    assert codes(found) == expected
    assert honest(bench)


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass\n",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n",
        "import signal, time\nsignal.pthread_sigmask(0, range(1, 65))\ntime.sleep(99)\n",
    ],
    ids=["loops", "forks", "sleeps"],
)
def test_a_hang_is_a_failed_test(bench: Bench, source: str) -> None:
    found = bench.examine({**HONEST, "sol.py": source}, test_timeout_s=1.0)

    assert {t.outcome for t in found.tests if "test_add" in t.id} == {"failed"}
    assert honest(bench)


def test_a_program_that_hangs_is_stopped(bench: Bench) -> None:
    tests = """
        def test_hang(candidate):
            done = candidate.run(["python3", "-c", "while True: pass"], timeout_s=0.3)
            assert (done.status, done.timed_out) == (124, True)
    """
    assert outcomes(bench.examine(HONEST, tests)) == {"passed"}


def test_all_tests_together_have_a_deadline(bench: Bench) -> None:
    found = bench.examine(
        {**HONEST, "sol.py": "while True: pass\n"}, timeout_s=1.0, test_timeout_s=60
    )

    assert found.trouble or outcomes(found) != {"passed"}
    assert honest(bench)


WAYS = {
    "exception": (
        "def add(a, b): raise ValueError('boom')\n",
        """
        import pytest
        def test_it(candidate):
            with pytest.raises(candidate.Error) as caught:
                candidate.call("sol", "add", 1, 2)
            assert (caught.value.type, caught.value.message) == ("ValueError", "boom")
        """,
    ),
    "eval": (
        "class Stack(list):\n    pass\n",
        """
        def test_it(candidate):
            code = "[sol.Stack([1, n]).pop(), math.floor(2.5)]"
            found = candidate.eval(code, imports=["sol", "math"], names={"n": 9})
            assert found == [9, 2]
        """,
    ),
    "state": (
        "seen = []\ndef add(x):\n    seen.append(x)\n    return seen\n",
        """
        def test_one(candidate):
            candidate.call("sol", "add", 1)
            assert candidate.call("sol", "add", 2) == [1, 2]
        def test_two(candidate):
            assert candidate.call("sol", "add", 3) == [3]
        """,
    ),
    "files": (
        "",
        """
        import pytest
        def test_it(candidate, tmp_path):
            assert candidate.read_text("/app/sol.py") == ""
            assert candidate.exists("/app/total.py") and not candidate.exists("/app/x")
            done = candidate.run(["sh", "-c", "echo '[1]' > out; ln -s out l"], cwd=tmp_path)
            assert done.status == 0, done.stderr
            assert candidate.read_json(tmp_path / "out") == [1]
            with pytest.raises(candidate.Error):
                candidate.read(tmp_path / "l")
        """,
    ),
    "plain pytest": (
        "",
        """
        import os, subprocess, unittest
        import pytest

        @pytest.fixture(scope="module")
        def number():
            return 3

        def test_capsys(capsys, number, monkeypatch):
            print("x" * number)
            monkeypatch.setenv("A", "b")
            assert capsys.readouterr().out == "xxx\\n"
            assert subprocess.check_output("echo $A", shell=True) == b"b\\n"

        def test_approx():
            assert 0.1 + 0.2 == pytest.approx(0.3)

        def test_user(tmp_path_factory):
            assert subprocess.check_output(["id", "-u"]) == b"64000\\n"
            assert os.system("exit 3") >> 8 == 3 or True
            tmp_path_factory.mktemp("x")

        class TestOld(unittest.TestCase):
            def test_old(self):
                self.assertEqual(1, 1)
        """,
    ),
    "own modules first": (
        "import packaging\ndef add(): return packaging.MINE\n",
        """
        def test_it(candidate):
            assert candidate.call("sol", "add") == "mine"
        """,
    ),
    "prints": (
        "import sys\ndef add():\n    print('noise'); print('x', file=sys.stderr); return 1\n",
        """
        def test_it(candidate):
            assert candidate.call("sol", "add") == 1
        """,
    ),
}


@pytest.mark.parametrize(("source", "tests"), WAYS.values(), ids=WAYS.keys())
def test_what_a_test_may_do(bench: Bench, source: str, tests: str) -> None:
    left = {"sol.py": source, "total.py": TOTAL, "packaging.py": "MINE = 'mine'\n"}

    found = bench.examine(left, tests)

    assert [t for t in found.tests if t.outcome != "passed"] == []
    assert found.tests
    assert found.evidence == ()


def test_a_conftest_of_the_judges_is_used_and_one_of_the_agents_is_not(
    bench: Bench,
) -> None:
    ours = "import pytest\n@pytest.fixture\ndef ours(): return 5\n"
    evil = (
        "import pytest\n@pytest.hookimpl(hookwrapper=True)\n"
        "def pytest_runtest_makereport(item, call):\n"
        "    o = yield\n    o.get_result().outcome = 'passed'\n"
    )
    tests = "def test_ours(ours): assert ours == 5\ndef test_no(): assert False\n"

    found = bench.examine({"conftest.py": evil}, tests, conftest__py=ours)

    assert [test.outcome for test in found.tests] == ["passed", "failed"], found


@pytest.mark.parametrize(
    "tests",
    [
        "import pytest\ndef test_it(): pytest.skip('no')\n",
        "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False\n",
        "import pytest\n@pytest.mark.xfail\ndef test_it(): pass\n",
        "import pytest\n@pytest.fixture\ndef f(): raise OSError\ndef test_it(f): pass\n",
        "import pytest\n@pytest.fixture\ndef f():\n    yield\n    raise OSError\ndef test_it(f): pass\n",
    ],
    ids=["skip", "xfail", "xpass", "set-up fails", "tear-down fails"],
)
def test_what_is_no_pass(bench: Bench, tests: str) -> None:
    found = bench.examine(HONEST, tests)

    assert len(found.tests) == 1
    assert found.tests[0].outcome != "passed"


def test_a_test_that_cannot_be_read_says_so(bench: Bench) -> None:
    found = bench.examine(HONEST, "import no_such_module\n")

    assert "ModuleNotFoundError" in found.trouble
    assert found.tests == ()


def test_a_candidate_cannot_lead_a_test_to_its_own_fixtures(bench: Bench) -> None:
    tests = """
        def test_it(candidate, tmp_path):
            candidate.run(["ln", "-s", "/verifier/hidden.json", "out.txt"], cwd=tmp_path)
            assert "two" in (tmp_path / "out.txt").read_text()
    """
    found = bench.examine(HONEST, tests)

    assert outcomes(found) == {"failed"}
    assert codes(found) == {"LINK_ESCAPE"}


def test_nothing_of_a_job_is_left_for_the_next(bench: Bench) -> None:
    leave = """
        def test_it(candidate):
            code = (
                "import os, pathlib, subprocess\\n"
                "for f in ('/tmp/a', '/var/tmp/b'): pathlib.Path(f).write_text('x')\\n"
                "os.fork() or os.setsid(); __import__('time').sleep(99)\\n"
            )
            assert candidate.run(["python3", "-c", code], timeout_s=0.5).timed_out
    """
    look = """
        import pathlib, subprocess
        def test_it(candidate):
            for file in ("/tmp/a", "/var/tmp/b"):
                assert not pathlib.Path(file).exists()
            assert not pathlib.Path("/app/old.py").exists()
            users = subprocess.check_output(["ps", "-eo", "uid", "--no-headers"]).split()
            assert users.count(b"64000") == 1
    """
    first = bench.examine({"old.py": ""}, leave)
    assert outcomes(first) == {"passed"}, first
    started = bench.pool.started

    found = bench.examine(HONEST, look)

    assert [t for t in found.tests if t.outcome != "passed"] == []
    assert bench.pool.started == started


def test_two_jobs_at_once_do_not_meet(bench: Bench) -> None:
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(honest(bench))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert found == [True, True]


def test_a_zygote_that_died_is_replaced_unseen(bench: Bench) -> None:
    assert honest(bench)
    with bench.pool.lend() as zygote:
        zygote.sandbox.kill()
    started = bench.pool.started

    assert honest(bench)
    assert bench.pool.started == started + 1


def test_a_zygote_is_renewed_after_its_share(
    namespaces: type[NamespaceSandbox],
    base_snapshot: Snapshot,
    places: Places,
    tmp_path: Path,
) -> None:
    spec = SandboxSpec(base_snapshot, id_base=VERIFIER_IDS, targets=(SUBMISSION,))
    pool = ZygotePool(lambda: namespaces(spec, places), renew_after=1)
    runner = PristineRunner(
        lambda spec: namespaces(spec, places), pristine=base_snapshot, pool=pool
    )
    bench = Bench(runner, pool, tmp_path)

    assert honest(bench)
    assert honest(bench)
    assert pool.started == 2
    pool.close()


def test_an_image_without_python_is_a_fault_of_the_harness(
    namespaces: type[NamespaceSandbox],
    base_snapshot: Snapshot,
    places: Places,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rlvr_envs.sandbox.examiner.PYTHON", ("/usr/bin/false",))
    spec = SandboxSpec(base_snapshot, id_base=VERIFIER_IDS, targets=(SUBMISSION,))
    pool = ZygotePool(lambda: namespaces(spec, places))
    runner = PristineRunner(
        lambda spec: namespaces(spec, places), pristine=base_snapshot, pool=pool
    )

    with pytest.raises(SandboxError, match="did not start"):
        Bench(runner, pool, tmp_path).examine(HONEST)
