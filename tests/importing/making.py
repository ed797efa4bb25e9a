"""Foreign task sets of the tests' own, small and self-written."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

TOML = """version = "1.0"

[metadata]
difficulty = "easy"
category = "files"
tags = ["text", "Two Words"]

[verifier]
timeout_sec = 60.0

[agent]
timeout_sec = 120.0
"""

DOCKERFILE = """FROM ubuntu:24.04
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y python3-pip && rm -rf /var/lib/apt/lists/*
RUN pip3 install --no-cache-dir pytest==8.4.1
WORKDIR /work
COPY data/ /work/data/
RUN cp /work/data/words.txt /work/copied.txt
"""

SCRIPT = """#!/bin/bash
pytest /tests/test_outputs.py -rA
status=$?
if [ $status -eq 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
exit $status
"""

TESTS = """
from pathlib import Path


def test_the_answer_is_there():
    assert Path("/work/answer.txt").read_text().strip() == "3"
"""

SOLUTION = "wc -l < /work/copied.txt > /work/answer.txt\n"


def harbor_task(folder: Path, **parts: str) -> Path:
    """Write a task; a part is named by its file with ``__`` for ``/``."""
    files: dict[str, str] = {
        "task.toml": TOML,
        "instruction.md": "Count the lines {exactly}.\n",
        "environment/Dockerfile": DOCKERFILE,
        "environment/data/words.txt": "one\ntwo\nthree\n",
        "tests/test.sh": SCRIPT,
        "tests/test_outputs.py": TESTS,
        "solution/solve.sh": SOLUTION,
    }
    named = {
        "toml": "task.toml",
        "dockerfile": "environment/Dockerfile",
        "script": "tests/test.sh",
        "tests": "tests/test_outputs.py",
        "instruction": "instruction.md",
    }
    files |= {named[key]: text for key, text in parts.items()}
    return write(folder, files)


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def quixbugs_checkout(folder: Path) -> Path:
    """Write two programs in the layout of QuixBugs: one on data, one on nodes."""
    return write(
        folder,
        {
            "python_programs/double.py": _double("value + value + 1"),
            "correct_python_programs/double.py": _double("value + value"),
            "python_programs/last_node.py": _last("node.successor.successor"),
            "correct_python_programs/last_node.py": _last("node.successor"),
            "json_testcases/double.json": "[[2], 4]\n[[0], 0]\n[[99], 198]\n",
            "python_testcases/test_double.py": _tests_of_double(),
            "python_testcases/test_last_node.py": _tests_of_last(),
        },
    )


def _double(expression: str) -> str:
    return f'def double(value):\n    """Twice the value."""\n    return {expression}\n'


def _last(step: str) -> str:
    return textwrap.dedent(
        f'''\
        def last_node(node):
            """The last node of a linked list; marks it."""
            while node.successor is not None:
                node = {step}
            node.value = ("last", node.value)
            return node
        '''
    )


def _tests_of_double() -> str:
    return textwrap.dedent(
        """\
        import pytest
        from load_testdata import load_json_testcases

        if pytest.use_correct:
            from correct_python_programs.double import double
        else:
            from python_programs.double import double

        testdata = load_json_testcases(double.__name__)


        @pytest.mark.parametrize("input_data,expected", testdata)
        def test_double(input_data, expected):
            if not pytest.run_slow and input_data == [99]:
                pytest.skip("slow")
            assert double(*input_data) == expected
        """
    )


def _tests_of_last() -> str:
    return textwrap.dedent(
        """\
        import pytest
        from node import Node

        if pytest.use_correct:
            from correct_python_programs.last_node import last_node
        else:
            from python_programs.last_node import last_node


        def test_two():
            end = Node(2)
            start = Node(1, end)

            assert last_node(start) is end
            assert end.value == ("last", 2)


        def test_one():
            only = Node(1)

            assert last_node(only) is only
        """
    )
