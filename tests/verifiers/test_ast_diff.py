from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.verifiers.ast_diff import AstDiff
from tests.verifiers.builders import check, context, frozen

BEFORE = '''
"""Prices."""
import os


def total(items, tax=0):
    """Add."""
    return os.popen("x") and sum(items)


def other(a):
    return a


class Cart:
    def add(self, item):
        return item
'''

AFTER = BEFORE.replace('os.popen("x") and sum(items)', "sum(items) + tax")


def reasons(tmp_path: Path, source: str | bytes, **options: Any) -> list[str]:
    state = frozen(tmp_path, {"app/m.py": source}, before={"app/m.py": BEFORE})
    spec = check("ast_diff", **{"path": "/app/m.py", **options})
    found = AstDiff(spec).verify(state, context(tmp_path, state.root))
    return [item.reason for item in found.checks if not item.passed]


@pytest.mark.parametrize(
    "options",
    [
        {"forbid_calls": ["os.popen"]},
        {"require_calls": ["sum"]},
        {"require_imports": ["os"]},
        {"forbid_imports": ["subprocess"]},
        {"forbid_names": ["popen"]},
        {"require_names": ["Cart"]},
        {"forbid_nodes": ["While", "Global"]},
        {"require_nodes": ["ClassDef"]},
        {"require_defs": ["total", "Cart.add"]},
        {"keep_signatures": True},
        {"only_change": ["total"]},
        {"path": "/app", "forbid_names": ["popen"]},
    ],
)
def test_a_source_that_keeps_the_rule_passes(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    assert reasons(tmp_path, AFTER, **options) == []


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (BEFORE, {"forbid_calls": ["os.popen"]}),
        ("from os import popen as p\np('x')\n", {"forbid_calls": ["os.popen"]}),
        ("import os as o\no.popen('x')\n", {"forbid_calls": ["os.popen"]}),
        ("x = df.a.iterrows()\n", {"forbid_calls": ["*.iterrows"]}),
        ("pass\n", {"require_calls": ["sum"]}),
        ("from os import path\n", {"forbid_imports": ["os"]}),
        ("def f(popen): pass\n", {"forbid_names": ["popen"]}),
        ("while True: pass\n", {"forbid_nodes": ["While"]}),
        ("class Cart: pass\n", {"require_defs": ["Cart.add"]}),
        (AFTER.replace("tax=0", "tax=1"), {"keep_signatures": True}),
        (AFTER.replace("def other", "def another"), {"keep_signatures": ["other"]}),
        (AFTER.replace("return a", "return a or 0"), {"only_change": ["total"]}),
        (AFTER.replace("return item", "return 0"), {"only_change": ["total"]}),
        (AFTER.replace("import os", "import os, sys"), {"only_change": ["total"]}),
        ("def total(:\n", {"keep_signatures": True}),
        ("(" * 5000 + ")" * 5000, {"forbid_names": ["x"]}),
        (b"\x00", {"forbid_names": ["x"]}),
    ],
)
def test_a_near_miss_fails(
    tmp_path: Path, source: str | bytes, options: dict[str, Any]
) -> None:
    assert reasons(tmp_path, source, **options)


def test_docstrings_and_annotations_are_free(tmp_path: Path) -> None:
    source = AFTER.replace('"""Add."""', '"""Add up."""').replace(
        "items, tax=0", "items: list[int], tax: int = 0"
    )

    assert reasons(tmp_path, source, only_change=["total"]) == []
    assert reasons(tmp_path, source, keep_signatures=True) == []


def test_a_source_is_never_executed(tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    reasons(tmp_path, f"open({str(marker)!r}, 'w')\n", forbid_names=["x"])

    assert not marker.exists()


def test_a_folder_without_sources_fails(tmp_path: Path) -> None:
    assert reasons(tmp_path, "x = 1\n", path="/none", forbid_names=["y"])
