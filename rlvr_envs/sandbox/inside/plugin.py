"""The pytest plugin of an examiner: fixtures, time limits, and what came out."""

from __future__ import annotations

import copy
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.sandbox.inside.link import Candidate

DETAIL_CHARS = 600


class Scratch:
    """Folders that tests and candidates share: the root's, sticky, for everyone."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._count = 0

    def mktemp(self, basename: str, numbered: bool = True) -> Path:  # noqa: FBT001,FBT002 (pytest's signature)
        """Make a fresh folder."""
        self._count += 1
        name = f"{basename}{self._count}" if numbered else basename
        path = self._base / name
        path.mkdir()
        path.chmod(0o1777)
        return path

    def getbasetemp(self) -> Path:
        """Return the folder that holds them all."""
        return self._base


class Plugin:
    """Registered before the fork; `arm` gives it a job's own things after."""

    def __init__(self) -> None:
        self.results: dict[str, tuple[str, str]] = {}
        self.troubles: list[tuple[str, str]] = []
        self._candidate: Candidate
        self._hidden: Any = {}
        self._scratch: Scratch
        self._limit_s = 10.0
        self._until = 0.0

    def arm(
        self,
        candidate: Candidate,
        *,
        hidden: Any,
        work: Path,
        limit_s: float,
        until: float,
    ) -> None:
        """Set what the fixtures give, and the limits.

        Args:
            candidate: Of this job.
            hidden: Of this instance.
            work: Folder for scratch folders.
            limit_s: Of one test.
            until: When all must have ended, on `time.monotonic`.
        """
        self._candidate = candidate
        self._hidden = hidden
        self._scratch = Scratch(work)
        self._limit_s = limit_s
        self._until = until

    @pytest.fixture
    def candidate(self) -> Candidate:
        """The submission, to be called, run or read."""
        return self._candidate

    @pytest.fixture
    def hidden(self) -> Any:
        """Hidden data of the instance; a copy."""
        return copy.deepcopy(self._hidden)

    @pytest.fixture
    def tmp_path(self, request: pytest.FixtureRequest) -> Path:
        """A fresh folder that the candidate can write to as well."""
        name = re.sub(r"\W", "_", str(request.node.name))[:30]
        return self._scratch.mktemp(name)

    @pytest.fixture(scope="session")
    def tmp_path_factory(self) -> Scratch:
        """The maker of such folders."""
        return self._scratch

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Give each test its time; kill what it left behind."""
        limit = max(min(self._limit_s, self._until - time.monotonic()), 0.001)
        self._candidate.test = item.nodeid
        self._candidate.deadline = time.monotonic() + limit
        signal.signal(signal.SIGALRM, _late)
        signal.setitimer(signal.ITIMER_REAL, limit + 0.25)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._candidate.end_test()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Fold the phases of a test into one outcome: the worst."""
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        earlier = self.results.get(report.nodeid)
        if earlier is not None and earlier[0] != "passed":
            return
        if report.when == "setup" and outcome == "passed":
            return
        if report.when == "teardown" and outcome == "passed":
            return
        detail = "" if outcome == "passed" else _detail(report)
        self.results[report.nodeid] = (str(outcome), detail)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note test files that could not be read."""
        if report.outcome != "passed":
            self.troubles.append((report.nodeid, _detail(report)))


def _late(_number: int, _frame: Any) -> None:
    pytest.fail("the test outlasted its time limit")


def _detail(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return str(text)[-DETAIL_CHARS:]
