"""Whether submitted code laid hands on the test runner in its own process."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator

WATCHED = (
    "pytest",
    "_pytest.runner",
    "_pytest.reports",
    "_pytest.python",
    "_pytest.main",
    "_pytest.nodes",
    "_pytest.config",
    "_pytest.fixtures",
    "_pytest.outcomes",
    "_pytest.python_api",
    "_pytest.raises",
    "_pytest.terminal",
    "_pytest.unittest",
    "_pytest.assertion",
    "_pytest.assertion.rewrite",
    "pluggy._hooks",
    "pluggy._callers",
    "pluggy._manager",
    "unittest.case",
    "unittest.result",
    "unittest.runner",
)
"""Modules that decide what a test's result is."""


def fingerprint() -> dict[str, int]:
    """Return the identity of every function and class of the watched modules."""
    return {
        f"{module}.{name}": id(value)
        for module in WATCHED
        if isinstance(sys.modules.get(module), types.ModuleType)
        for name, value in _members(vars(sys.modules[module]))
    }


def changed(before: dict[str, int]) -> list[str]:
    """Return what was replaced or removed since, sorted."""
    after = fingerprint()
    return sorted(name for name, mark in before.items() if after.get(name) != mark)


def _members(names: dict[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in list(names.items()):
        if isinstance(value, types.FunctionType):
            yield name, value
        elif isinstance(value, type):
            yield name, value
            for inner, method in list(vars(value).items()):
                if isinstance(method, (types.FunctionType, property, classmethod)):
                    yield f"{name}.{inner}", method
