"""Read tasks in the Harbor format: nothing is built, nothing is run.

One folder a task: ``task.toml``, ``instruction.md``, ``environment/Dockerfile``,
``tests/test.sh`` and what it needs; perhaps ``solution/solve.sh``.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_envs.errors import TaskError
from rlvr_envs.importing.dockerfile import DockerfileError
from rlvr_envs.importing.needs import Needs, needs
from rlvr_envs.importing.plan import Plan, plan

PARTS = ("task.toml", "instruction.md", "environment/Dockerfile", "tests/test.sh")
DEPTH = 3
"""How many folders below the given one tasks may lie."""

_PYTEST_LINE = re.compile(
    r"(?:^|[\s;&|/])(?:pytest|py\.test)\b([^\n;|&]*)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class HarborTask:
    """A foreign task as it stands on disk.

    Attributes:
        expected: Test functions that the tests define, as ``file::name``.
        runs_pytest: Whether ``test.sh`` calls pytest, so that tests are counted.
        test_needs: Python packages that the tests import.
        imports: Modules that the tests import and that neither the standard
            library nor the tests have: a submission may stand behind them.
    """

    name: str
    folder: Path
    instruction: str
    difficulty: str
    tags: tuple[str, ...]
    agent_timeout_s: float
    verifier_timeout_s: float
    verifier_env: Mapping[str, str]
    plan: Plan
    needs: Needs
    expected: tuple[str, ...]
    runs_pytest: bool
    test_needs: frozenset[str]
    imports: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a task could not be loaded."""

    task: str
    file: str
    line: int
    reason: str


def find(folder: Path) -> tuple[Path, ...]:
    """Return task folders at or below a folder, sorted by name.

    A folder beside others that hold a task counts as one, so that a task without
    its ``task.toml`` is reported and not passed over.

    Raises:
        TaskError: If there is none.
    """
    if not folder.is_dir():
        raise TaskError("There is no such folder.", file=folder)
    if (folder / "task.toml").is_file():
        return (folder,)
    places = {
        path.parent.parent
        for depth in range(1, DEPTH + 1)
        for path in folder.glob("/".join(["*"] * depth) + "/task.toml")
    }
    if not places:
        raise TaskError(
            "No task.toml lies below this folder.",
            file=folder,
            remedy="Name a folder of Harbor-format tasks.",
        )
    found = {
        path
        for place in places
        for path in place.iterdir()
        if path.is_dir() and not path.name.startswith(".")
    }
    return tuple(sorted(found))


def load_all(
    folders: Iterable[Path],
) -> tuple[tuple[HarborTask, ...], tuple[Problem, ...]]:
    """Read every folder; what is wrong with one never stops the others."""
    tasks: list[HarborTask] = []
    problems: list[Problem] = []
    for folder in folders:
        try:
            tasks.append(load(folder))
        except TaskError as error:
            problems.append(_problem(folder, error))
        except (OSError, ValueError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}"
            problems.append(Problem(folder.name, str(folder), 0, reason))
    return tuple(tasks), tuple(problems)


def load(folder: Path) -> HarborTask:
    """Read one task.

    Raises:
        TaskError: Naming the file and what is wrong with it.
    """
    for part in PARTS:
        if not (folder / part).is_file():
            raise TaskError("The file is missing.", file=folder / part)
    config = _toml(folder / "task.toml")
    instruction = _text(folder / "instruction.md")
    if not instruction.strip():
        raise TaskError("The instruction is empty.", file=folder / "instruction.md")
    resolved = _plan(folder / "environment" / "Dockerfile")
    tests = folder / "tests"
    files = _counted_files(tests)
    imports = _foreign_imports(tests)
    return HarborTask(
        name=folder.name,
        folder=folder,
        instruction=instruction,
        difficulty=_difficulty(config),
        tags=_tags(config),
        agent_timeout_s=config.seconds("agent", 900.0),
        verifier_timeout_s=config.seconds("verifier", 600.0),
        verifier_env=config.texts("verifier", "env"),
        plan=resolved,
        needs=needs(resolved),
        expected=tuple(name for file in files for name in test_names(file, tests)),
        runs_pytest=bool(_PYTEST_LINE.search(_text(tests / "test.sh"))),
        test_needs=frozenset(LIBRARIES[name] for name in imports & LIBRARIES.keys()),
        imports=tuple(sorted(imports - LIBRARIES.keys())),
    )


@dataclass(frozen=True, slots=True)
class _Config:
    """A parsed ``task.toml``."""

    file: Path
    data: Mapping[str, Any]

    def table(self, name: str) -> Mapping[str, Any]:
        value = self.data.get(name, {})
        if not isinstance(value, dict):
            raise TaskError(f"{name} must be a table.", file=self.file)
        return value

    def seconds(self, table: str, default: float) -> float:
        value = self.table(table).get("timeout_sec", default)
        if type(value) not in (int, float) or not 0 < value < 1e6:
            raise TaskError(f"{table}.timeout_sec must be seconds.", file=self.file)
        return float(value)

    def texts(self, table: str, key: str) -> dict[str, str]:
        value = self.table(table).get(key, {})
        if not isinstance(value, dict) or not all(
            isinstance(item, str) for item in value.values()
        ):
            raise TaskError(f"{table}.{key} must hold text values.", file=self.file)
        return dict(value)


def _toml(file: Path) -> _Config:
    try:
        return _Config(file, tomllib.loads(_text(file)))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise TaskError(
            f"The TOML is broken: {error}.",
            file=file,
            line=int(line[1]) if line else 0,
        ) from error


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise TaskError(f"The file is not UTF-8 ({error.reason}).", file=file) from None


def _plan(file: Path) -> Plan:
    try:
        return plan(_text(file))
    except DockerfileError as error:
        raise TaskError(str(error), file=file, line=error.line) from error


def _difficulty(config: _Config) -> str:
    value = config.table("metadata").get("difficulty", "medium")
    return value if value in ("easy", "medium", "hard") else "medium"


def _tags(config: _Config) -> tuple[str, ...]:
    metadata = config.table("metadata")
    words = [metadata.get("category", ""), *metadata.get("tags", [])]
    cleaned = (re.sub(r"[^a-z0-9_-]+", "-", str(word).lower()) for word in words)
    return tuple(sorted({word.strip("-_") for word in cleaned} - {""}))


def _counted_files(tests: Path) -> tuple[Path, ...]:
    """Return the test files that ``test.sh`` hands to pytest."""
    lines = _PYTEST_LINE.findall(_text(tests / "test.sh"))
    named = {
        tests / word.removeprefix("/tests/")
        for line in lines
        for word in line.split()
        if word.endswith(".py")
    }
    if not named:
        named = {*tests.rglob("test_*.py"), *tests.rglob("*_test.py")}
    return tuple(sorted(path for path in named if path.is_file()))


def test_names(file: Path, tests: Path) -> tuple[str, ...]:
    """Return the test functions of a file as pytest names them, without parameters.

    Raises:
        TaskError: If the file is no Python.
    """
    where = file.relative_to(tests).as_posix()
    return tuple(f"{where}::{name}" for name in _tests_in(_module(file).body))


def _tests_in(body: list[ast.stmt]) -> list[str]:
    names = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("test") and not _is_fixture(node):
                names.append(node.name)
        elif isinstance(node, ast.ClassDef) and _collected(node):
            names += [f"{node.name}::{name}" for name in _tests_in(node.body)]
    return list(dict.fromkeys(names))


def _is_fixture(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("fixture" in ast.unparse(item) for item in node.decorator_list)


def _collected(node: ast.ClassDef) -> bool:
    bases = " ".join(ast.unparse(base) for base in node.bases)
    has_init = any(
        isinstance(item, ast.FunctionDef) and item.name == "__init__"
        for item in node.body
    )
    return "TestCase" in bases or (node.name.startswith("Test") and not has_init)


def _module(file: Path) -> ast.Module:
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 0) or 0
        raise TaskError(f"The test is no Python: {error}.", file=file, line=line) from (
            error
        )


LIBRARIES = {
    "numpy": "numpy",
    "pandas": "pandas",
    "pytest": "pytest",
    "scipy": "scipy",
    "Crypto": "pycryptodome",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "cryptography": "cryptography",
    "docker": "docker",
    "flask": "flask",
    "jsonschema": "jsonschema",
    "jwt": "pyjwt",
    "lxml": "lxml",
    "matplotlib": "matplotlib",
    "networkx": "networkx",
    "psutil": "psutil",
    "psycopg2": "psycopg2-binary",
    "pyarrow": "pyarrow",
    "rasterio": "rasterio",
    "redis": "redis",
    "requests": "requests",
    "sklearn": "scikit-learn",
    "statsmodels": "statsmodels",
    "tensorflow": "tensorflow",
    "toml": "toml",
    "torch": "torch",
    "transformers": "transformers",
    "xgboost": "xgboost",
    "yaml": "pyyaml",
    "yara": "yara-python",
}
"""Modules that tests import, and the packages on PyPI that bring them."""


def _foreign_imports(tests: Path) -> set[str]:
    """Return what the tests import beside the standard library and each other."""
    own = {path.stem for path in tests.rglob("*.py")} | {"_pytest"}
    found: set[str] = set()
    for file in tests.rglob("*.py"):
        with suppress(TaskError):
            for node in ast.walk(_module(file)):
                found |= _imported(node)
    return found - own - set(sys.stdlib_module_names)


def _imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        return {node.module.split(".")[0]}
    return set()


def _problem(folder: Path, error: TaskError) -> Problem:
    reason = str(error).split(": ", 1)[-1]
    return Problem(folder.name, str(error.file), error.line, reason)
