"""Turns of actions that nobody can read: an agent may send anything."""

from __future__ import annotations

from typing import Any

import pytest

from rlvr_envs.records import ToolCategory
from rlvr_envs.wrappers.turns import turn_of

INFO: dict[str, Any] = {"tool": "", "ok": False, "error_kind": "malformed_call"}


def nested(levels: int) -> dict[str, Any]:
    outer: dict[str, Any] = {}
    inner = outer
    for _level in range(levels):
        inner["a"] = {}
        inner = inner["a"]
    return outer


@pytest.mark.parametrize("action", [nested(5_000), 10**5_000], ids=["deep", "long"])
def test_an_action_without_a_text_is_named_by_its_type(action: Any) -> None:
    turn = turn_of(action, "?", INFO, {"bash": ToolCategory.MUTATE})

    assert turn.call.name == ""
    assert turn.call.arguments == {"action": f"<{type(action).__name__}>"}


def test_another_malformed_action_is_kept_as_it_was_given() -> None:
    assert turn_of("ls", "?", INFO, {}).call.arguments == {"action": "ls"}
