from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.verifiers.files import FileContent
from tests.verifiers.builders import check, context, frozen, lay

SHA = hashlib.sha256(b"hello\n").hexdigest()


def verdict(tmp_path: Path, content: bytes | str | None, **options: Any) -> bool:
    state = frozen(tmp_path, {})
    tree = {} if content is None else {"app/out.txt": content}
    submission = lay(tmp_path / "in", tree)
    spec = check("file_content", path="/app/out.txt", **options)
    hidden = {"answer": 42, "deep": {"list": ["x", "y"]}}
    found = FileContent(spec).verify(
        state, context(tmp_path, submission, hidden=hidden)
    )
    (only,) = found.checks
    assert only.passed == (only.reason == "")
    return only.passed


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("5\n", {"equals": "5\n"}),
        (" 5\n\n", {"equals": "5", "normalise": ["strip"]}),
        (
            "A  b\r\nc\r\n",
            {
                "equals": "a b\nc\n",
                "normalise": ["crlf", "collapse_spaces", "casefold"],
            },
        ),
        ("42\n", {"equals": {"hidden": "answer"}, "normalise": ["strip"]}),
        ("y", {"equals": {"hidden": "deep.list.1"}}),
        ("id-77", {"regex": r"id-\d+"}),
        ('{"b": 1.0, "a": [true]}', {"json": {"a": [True], "b": 1}}),
        ("42", {"json": {"hidden": "answer"}}),
        ("3.1401", {"json": 3.14, "tolerance": 0.001}),
        ("hello\n", {"sha256": SHA}),
        ("x\ny\n", {"lines": {"hidden": "deep.list"}}),
        ("b\na", {"lines": ["a", "b"], "normalise": ["sort_lines"]}),
        ("Привет".encode("koi8-r"), {"equals": "Привет", "encoding": "koi8-r"}),
        (None, {"absent": True}),
    ],
)
def test_a_file_as_it_should_be_passes(
    tmp_path: Path, content: bytes | str | None, options: dict[str, Any]
) -> None:
    assert verdict(tmp_path, content, **options)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("5", {"equals": "5\n"}),
        ("55", {"regex": r"5"}),
        ("id-7 and more", {"regex": r"id-\d+"}),
        ('{"a": 1, "a": 1}', {"json": {"a": 1}}),
        ("NaN", {"json": 1, "tolerance": 9.0}),
        ("true", {"json": 1}),
        ("41", {"json": {"hidden": "answer"}}),
        ("hello", {"sha256": SHA}),
        ("x\ny\nz", {"lines": {"hidden": "deep.list"}}),
        (b"\xff", {"equals": "y"}),
        (None, {"equals": ""}),
        ("", {"absent": True}),
        ("x" * 100, {"regex": "x+", "max_bytes": 99}),
    ],
)
def test_a_near_miss_fails(
    tmp_path: Path, content: bytes | str | None, options: dict[str, Any]
) -> None:
    assert not verdict(tmp_path, content, **options)


def test_a_fifo_in_the_final_root_hinders_grading(tmp_path: Path) -> None:
    state = frozen(tmp_path, {"app": None})
    os.mkfifo(state.root / "app/out.txt")
    spec = check("file_content", path="/app/out.txt", equals="5")

    found = FileContent(spec).verify(state, context(tmp_path, state.root))

    assert not found.checks[0].passed
    assert {str(e.code) for e in found.evidence} == {"LINK_ESCAPE", "HARNESS_TAMPER"}
