"""Files of a task's verifier folder, and whether those that a check names are there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from rlvr_envs.records import JsonObject

HIDDEN = "hidden.json"
"""What an instance adds to the folder."""

_NAMED = re.compile(r"(?<![\w./-])/verifier/([\w./-]*\w)")


def missing(check: JsonObject, there: Collection[str]) -> str:
    """Return the first file that a check names and that is not there, or nothing.

    Args:
        check: As ``task.yaml`` has it: tests by their names beneath the folder, and
            whatever else by a path that begins with ``/verifier/``.
        there: Names of files beneath the folder; a folder is there if a file in it is.
    """
    return next((name for name in _named(check) if not _is_there(name, there)), "")


def _named(check: JsonObject) -> Iterator[str]:
    options = check.get("options", {})
    if check["kind"] == "pytest":
        yield from options.get("tests", ())
    for text in _strings(options):
        yield from _NAMED.findall(text)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _is_there(name: str, there: Collection[str]) -> bool:
    return name == HIDDEN or any(f"{file}/".startswith(f"{name}/") for file in there)
