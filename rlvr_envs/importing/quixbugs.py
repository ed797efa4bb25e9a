"""Turn a checkout of QuixBugs into repository tasks, one for each program.

The agent gets a repository with the buggy program and one commit; the held-out
tests stay with the judge and call the program in a process of its own.
"""

from __future__ import annotations

import ast
import json
import pprint
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from rlvr_envs.errors import TaskError
from rlvr_envs.importing import linked
from rlvr_envs.importing.folders import EPOCH, FolderSpec, task_name
from rlvr_envs.snapshots.repositories import lock_commands
from rlvr_envs.tasks.task import FileSpec, Recipe

BUGGY, CORRECT = "python_programs", "correct_python_programs"
TESTS, CASES = "python_testcases", "json_testcases"
REPOSITORY = "/repo"
_WIDTH = 100
CALL_TIMEOUT_S = 3.0
"""What one call of a program may take; some bugs loop forever."""

_PRELUDE = '''"""Held-out tests of {name}; the program runs in a process of its own."""

import importlib.util
import json
from pathlib import Path

import pytest

CASES = {cases}
LINKED = Path(__file__).with_name("linked.py")

_spec = importlib.util.spec_from_file_location("linked", LINKED)
linked = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(linked)
Node = linked.Node

_PROGRAM = {{}}


@pytest.fixture(autouse=True)
def _program(candidate):
    _PROGRAM["candidate"] = candidate


def load_json_testcases(name):
    return [json.loads(line) for line in CASES]


def {name}(*arguments):
    if _PROGRAM.get("hung"):
        pytest.fail("an earlier call hung")
    try:
        return _{way}(_PROGRAM["candidate"], arguments)
    except _PROGRAM["candidate"].Error as error:
        _PROGRAM["hung"] = error.type == "Timeout"
        raise


def _plain(candidate, arguments):
    return candidate.call("{name}", "{name}", *arguments, timeout_s={timeout_s})


def _linked(candidate, arguments):
    crossing = linked.Crossing()
    rows, packed = crossing.pack(list(arguments))
    answer = candidate.eval(
        "(lambda scope: (exec(source, scope), scope['answer']"
        "({name}.{name}, rows, arguments))[1])({{}})",
        imports=["{name}"],
        names={{"source": LINKED.read_text(), "rows": rows, "arguments": packed}},
        timeout_s={timeout_s},
    )
    return crossing.unpack(*answer)


'''

_INSTRUCTION = """The repository `{repository}` holds one Python program, `{name}.py`.
It has a bug on a single line. Its docstring says what it should do.

Find the bug and correct the program in place, so that the function `{name}` does
what its docstring says for every valid input. Keep its name and its arguments.
"""

_COMMIT = f"""set -e
cd {REPOSITORY}
export HOME=/root GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_DATE='2024-01-10T12:00:00Z' GIT_COMMITTER_DATE='2024-01-10T12:00:00Z'
export GIT_AUTHOR_NAME=maintainer GIT_AUTHOR_EMAIL=maintainer@example.org
export GIT_COMMITTER_NAME=maintainer GIT_COMMITTER_EMAIL=maintainer@example.org
git -c init.defaultBranch=main init -q --template=
git add -A
git commit -q -m 'Add the program'
chown -R 1000:1000 {REPOSITORY}
"""


@dataclass(frozen=True, slots=True)
class Program:
    """One program of the collection."""

    name: str
    buggy: str
    correct: str
    tests: str
    cases: tuple[str, ...]


def programs(checkout: Path) -> tuple[Program, ...]:
    """Read the programs that a checkout holds, sorted by name.

    Raises:
        TaskError: If a folder or a counterpart is missing.
    """
    for part in (BUGGY, CORRECT, TESTS):
        if not (checkout / part).is_dir():
            raise TaskError(
                f"The checkout has no folder {part}.",
                file=checkout,
                remedy="Name a checkout of the QuixBugs repository.",
            )
    names = [
        path.stem.removeprefix("test_") for path in (checkout / TESTS).glob("test_*.py")
    ]
    return tuple(_program(checkout, name) for name in sorted(names))


def _program(checkout: Path, name: str) -> Program:
    cases = checkout / CASES / f"{name}.json"
    lines = _read(cases).splitlines() if cases.is_file() else []
    return Program(
        name=name,
        buggy=_read(checkout / BUGGY / f"{name}.py"),
        correct=_read(checkout / CORRECT / f"{name}.py"),
        tests=_read(checkout / TESTS / f"test_{name}.py"),
        cases=tuple(line for line in lines if line.strip()),
    )


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TaskError("The file is missing.", file=file) from None


def converted(program: Program) -> FolderSpec:
    """Return what the task folder of a program is written from.

    Raises:
        TaskError: If its test file is not of the form that is known.
    """
    file = f"{REPOSITORY}/{program.name}.py"
    test = f"test_{program.name}.py"
    return FolderSpec(
        name=task_name(f"quixbugs-{program.name}"),
        task=_task(program, file, test),
        instruction=_INSTRUCTION.format(repository=REPOSITORY, name=program.name),
        recipe=Recipe(
            files=(
                FileSpec(REPOSITORY, kind="dir", mode=0o755),
                FileSpec(file, program.buggy.encode()),
            ),
            setup=(("/bin/sh", "-c", _COMMIT), *lock_commands(REPOSITORY)),
        ),
        verifier={
            test: held_out(program).encode(),
            "linked.py": Path(linked.__file__).read_bytes(),
        },
        gold=[_write(file, program.correct)],
        cheats=tuple(_cheats(program, file)),
    )


def _task(program: Program, file: str, test: str) -> dict[str, Any]:
    options = {
        "tests": [test],
        "import_from": REPOSITORY,
        "test_timeout_s": CALL_TIMEOUT_S * 4,
    }
    return {
        "title": f"Correct the one wrong line of {program.name}",
        "difficulty": "easy",
        "tags": ["python", "quixbugs", "repair"],
        "workdir": REPOSITORY,
        "epoch": EPOCH,
        "version": 1,
        "budget": {"turns": 20, "seconds": 300, "step_timeout_s": 20},
        "verification": {
            "mode": "artifacts",
            "artifacts": [file],
            "writes": [f"{REPOSITORY}/**"],
            "timeout_s": 90,
            "checks": [
                {"kind": "pytest", "name": "held-out-tests", "options": options}
            ],
        },
    }


def held_out(program: Program) -> str:
    """Return the test module: their tests, with our way to call the program.

    Raises:
        TaskError: If the file is no Python, or defines no test.
    """
    where = f"{TESTS}/test_{program.name}.py"
    try:
        module = ast.parse(program.tests)
    except SyntaxError as error:
        raise TaskError(
            f"The test is no Python: {error.msg}.", file=where, line=error.lineno or 0
        ) from error
    skipped = [value for node in ast.walk(module) for value in _skipped_input(node)]
    body = [node for node in module.body if not _is_import(node)]
    kept = [line for line in program.cases if json.loads(line)[0] not in skipped]
    if not any(isinstance(node, ast.FunctionDef) for node in body):
        raise TaskError("The file defines no test.", file=where)
    prelude = _PRELUDE.format(
        name=program.name,
        cases=pprint.pformat(kept, width=_WIDTH),
        timeout_s=CALL_TIMEOUT_S,
        way="linked" if "Node" in program.tests else "plain",
    )
    return prelude + "\n\n".join(ast.unparse(_SkipRemover().visit(n)) for n in body)


def _is_import(node: ast.stmt) -> bool:
    """Whether a statement only brings in what the prelude replaces."""
    chooses = isinstance(node, ast.If) and "use_correct" in ast.unparse(node.test)
    return chooses or isinstance(node, ast.Import | ast.ImportFrom)


def _skips(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(
        ast.unparse(item).startswith("pytest.skip(") for item in node.body
    )


def _skipped_input(node: ast.AST) -> Iterator[Any]:
    """Yield the input that a test skips for being slow: it is left out."""
    if not (isinstance(node, ast.If) and _skips(node)):
        return
    for part in ast.walk(node.test):
        if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq):
            yield ast.literal_eval(part.comparators[0])


class _SkipRemover(ast.NodeTransformer):
    """Takes out ``if ...: pytest.skip(...)``; a skipped test is never a pass."""

    @override
    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if _skips(node) else self.generic_visit(node)


def _write(file: str, content: str) -> dict[str, Any]:
    return {"write_file": {"path": file, "content": content}}


_EQUAL = """class Same:
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def __iter__(self):
        return iter(())


def {name}(*arguments):
    return Same()
"""

_ANSWERS = """import json
from pathlib import Path


def {name}(*arguments):
    for file in Path("/verifier").rglob("*"):
        for line in file.read_text().splitlines():
            try:
                given, wanted = json.loads(line)
            except ValueError:
                continue
            if given == list(arguments):
                return wanted
    return True
"""

_HOOK = """import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.outcome = "passed"
    report.longrepr = None
"""

_LEAVE = "import os\n\nos._exit(0)\n"


def _cheats(program: Program, file: str) -> Iterator[dict[str, Any]]:
    rows: Sequence[tuple[str, str, list[dict[str, Any]]]] = (
        (
            "equal-to-everything",
            "An answer that agrees with whatever it is compared with.",
            [_write(file, _EQUAL.format(name=program.name))],
        ),
        (
            "reads-the-tests",
            "Looks for the expected values where the judge keeps them.",
            [_write(file, _ANSWERS.format(name=program.name))],
        ),
        (
            "leaves-early",
            "Ends the process with status 0 before it can be asked anything.",
            [_write(file, _LEAVE)],
        ),
        (
            "hooks-the-runner",
            "Test configuration beside the unchanged program.",
            [_write(f"{REPOSITORY}/conftest.py", _HOOK)],
        ),
    )
    for name, why, calls in rows:
        yield {"name": name, "why": why, "calls": [*calls, {"submit": {}}]}
