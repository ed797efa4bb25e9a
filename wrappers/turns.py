"""One step, seen as the turn that rewards read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym

from rlvr_envs.errors import CallerError
from rlvr_envs.records import ToolCall, ToolCategory, ToolSpec
from rlvr_envs.rewards.episode import Turn
from rlvr_envs.tools.parsing import parse_call


def tool_categories(env: gym.Env[Any, Any]) -> Mapping[str, ToolCategory]:
    """Return tool name to category for the tools of an environment.

    Raises:
        CallerError: If the environment has no ``tool_specs``.
    """
    try:
        specs: Sequence[ToolSpec] = env.get_wrapper_attr("tool_specs")
    except AttributeError as error:
        raise CallerError(
            f"{type(env.unwrapped).__name__} has no `tool_specs`.",
            remedy="wrap an environment whose `tool_specs` is a tuple of ToolSpec",
        ) from error
    return {spec.name: spec.category for spec in specs}


def turn_of(
    action: Any,
    observation: Any,
    info: Mapping[str, Any],
    categories: Mapping[str, ToolCategory],
) -> Turn:
    """Return the turn of a step.

    What is no call of a known tool cannot have changed the world: it counts as
    looking, and its arguments are the action as it was given.
    """
    parsed = parse_call(action)
    call = parsed if isinstance(parsed, ToolCall) else _malformed(action)
    category = categories.get(call.name, ToolCategory.OBSERVE)
    return Turn.from_info(call, str(observation), info, category=category)


def _malformed(action: Any) -> ToolCall:
    try:
        text = str(action)
    except (ValueError, RecursionError):  # a very long number, very deep nesting
        text = f"<{type(action).__name__}>"
    return ToolCall("", {"action": text})
