"""Run the tests of a Harbor-format task on a throwaway copy of the final state.

The file is copied into the task's verifier folder and runs as root inside, on the
image's own Python, after every process of the agent was killed. It imports the
standard library only. What lies at the places of tests and reward was put there
by the agent and is removed first; the reward counts only as far as the tests
that were expected were also seen to pass.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

BROKEN = "the judge broke"
"""Begins the reason of a check that says nothing about the submission."""

CONFIG = "settings.json"


@dataclass(frozen=True)
class Settings:
    """What the importer wrote down.

    Attributes:
        expected: Test functions that the test files define, as ``file::name``.
        counts: Whether the script runs pytest, so that tests can be counted.
    """

    workdir: str
    env: Mapping[str, str]
    timeout_s: float
    expected: Sequence[str] = field(default_factory=tuple)
    counts: bool = True


@dataclass(frozen=True)
class Places:
    """Where things stand; tests of this file use others."""

    fixtures: Path = Path("/verifier")
    tests: Path = Path("/tests")
    logs: Path = Path("/logs")

    @property
    def verdicts(self) -> Path:
        """Folder in which the script leaves its reward."""
        return self.logs / "verifier"


def prepare(places: Places) -> None:
    """Clear what the agent may have left and lay out the tests."""
    for folder in (places.tests, places.logs):
        _remove(folder)
    shutil.copytree(places.fixtures / "tests", places.tests)
    places.verdicts.mkdir(parents=True)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


def run_script(settings: Settings, places: Places, report: Path) -> int:
    """Run ``test.sh``; return its exit status, or -1 if it did not end in time."""
    options = (
        f"-c {places.fixtures}/pytest.ini --rootdir={places.tests} "
        f"--confcutdir={places.tests} -p no:cacheprovider --junitxml={report}"
    )
    env = {
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        **settings.env,
        "PYTEST_ADDOPTS": options,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    workdir = settings.workdir if Path(settings.workdir).is_dir() else "/"
    try:
        done = subprocess.run(
            ["/bin/bash", str(places.tests / "test.sh")],
            cwd=workdir,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            stderr=sys.stderr,
            timeout=settings.timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1
    return done.returncode


def read_reward(folder: Path) -> float:
    """Return the reward that the script left; 0.0 if there is none that is sound."""
    text, data = folder / "reward.txt", folder / "reward.json"
    try:
        if text.is_file():
            return _sound(float(text.read_text()[:64]))
        if data.is_file():
            return _sound(_from_json(json.loads(data.read_text()[:65536])))
    except (ValueError, OSError, RecursionError):
        return 0.0
    return 0.0


def _from_json(data: Any) -> float:
    if isinstance(data, dict):
        rewards = [data["reward"]] if "reward" in data else list(data.values())
        plain = all(type(value) in (int, float) for value in rewards)
        return min(float(value) for value in rewards) if rewards and plain else 0.0
    return float(data) if type(data) in (int, float) else 0.0


def _sound(value: float) -> float:
    return value if math.isfinite(value) and 0.0 <= value <= 1.0 else 0.0


def read_report(report: Path) -> dict[str, bool]:
    """Return whether each test function passed (all its parameters did)."""
    seen: dict[str, bool] = {}
    try:
        root = ElementTree.parse(report).getroot()  # noqa: S314 (no entities; a lie fails)
    except (ElementTree.ParseError, OSError):
        return seen
    for case in root.iter("testcase"):
        module = case.get("classname", "").split(".")
        name = case.get("name", "").split("[", 1)[0]
        key = "::".join([*_dotted(module), name])
        sound = not any(child.tag in ("failure", "error", "skipped") for child in case)
        seen[key] = seen.get(key, True) and sound
    return seen


def _dotted(parts: Sequence[str]) -> list[str]:
    """Split ``sub.test_file.TestClass`` into a file and class names."""
    for index, part in enumerate(parts):
        if part.startswith("test_") or part.endswith("_test"):
            return ["/".join(parts[: index + 1]) + ".py", *parts[index + 1 :]]
    return ["/".join(parts) + ".py"]


@dataclass(frozen=True)
class Ran:
    """What one run of the script left.

    Attributes:
        status: Its exit status, or -1 if it did not end in time.
        seen: Whether each test function passed.
    """

    status: int
    reward: float
    seen: Mapping[str, bool]


def checks(settings: Settings, ran: Ran) -> list[dict[str, Any]]:
    """Return the verdict, check by check.

    Exit statuses 126 and 127 without a test that ran mean that the script's own
    programs are missing: the check ``runs`` says so, and no other one follows.
    """
    expected = list(settings.expected) if settings.counts else []
    unseen = [name for name in expected if name not in ran.seen]
    failed = sorted(name for name, passed in ran.seen.items() if not passed)
    if ran.status in (126, 127) and not ran.seen:
        return [_check("runs", f"the script's programs are missing ({ran.status})")]
    late = "it outlasted its time limit" if ran.status == -1 else ""
    return [
        _check("runs", late),
        _check("count", f"not seen: {_listed(unseen)}" if unseen else ""),
        _check("tests", f"failed: {_listed(failed)}" if failed else ""),
        _check("status", f"exit status {ran.status}" if ran.status else ""),
        _check("reward", "" if ran.reward == 1.0 else f"the reward is {ran.reward}"),
    ]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def _check(name: str, reason: str) -> dict[str, Any]:
    return {"name": name, "passed": not reason, "reason": reason}


def main(places: Places, *, scratch: str = "/root") -> list[dict[str, Any]]:
    """Judge once and return the checks."""
    settings = Settings(**json.loads((places.fixtures / CONFIG).read_text()))
    prepare(places)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        report = Path(folder) / "report.xml"
        status = run_script(settings, places, report)
        seen = read_report(report)
    return checks(settings, Ran(status, read_reward(places.verdicts), seen))


def tell(found: list[dict[str, Any]], nonce: str) -> None:
    """Write the verdict to the pipe that the host holds."""
    text = json.dumps({"nonce": nonce, "checks": found})
    with os.fdopen(3, "w") as verdict:
        verdict.write(text)


if __name__ == "__main__":
    secret = os.environ.pop("RLVR_NONCE")
    os.set_inheritable(3, False)  # noqa: FBT003 (its only parameter)
    try:
        rows = main(Places())
    except (OSError, ValueError, KeyError, TypeError) as error:
        rows = [_check("judge", f"{BROKEN}: {type(error).__name__}: {error}")]
    tell(rows, secret)
