from __future__ import annotations

import pytest

from rlvr_envs.records import ToolCall, ToolCategory
from rlvr_envs.rewards.episode import Turn
from rlvr_envs.rewards.generic_rules import generic_book
from rlvr_envs.rewards.path_rules import PathEngine


def turn(kind: str, what: str = "a", *, ok: bool = True) -> Turn:
    return Turn(ToolCall(kind, {"x": what}), category=ToolCategory(kind), ok=ok)


def violations(*path: Turn) -> list[tuple[str, ...]]:
    return [judged.violations for judged in PathEngine(generic_book()).score(path)]


def test_a_change_before_any_look_is_a_violation_each_time() -> None:
    assert violations(turn("mutate"), turn("mutate", "b")) == [
        ("act_before_observe",),
        ("act_before_observe",),
    ]


def test_a_look_that_failed_is_no_look() -> None:
    path = violations(turn("observe", ok=False), turn("mutate"))

    assert path[-1] == ("act_before_observe",)


def test_a_failed_call_may_be_repeated_once_something_changed() -> None:
    failing = turn("verify", ok=False)

    assert violations(turn("observe"), failing, turn("mutate"), failing)[-1] == ()


def test_a_failed_call_may_not_be_repeated_after_mere_looking() -> None:
    failing = turn("verify", ok=False)

    path = violations(turn("observe"), failing, turn("observe", "b"), failing)

    assert path[-1] == ("repeat_failed_call",)


def test_a_failed_change_is_not_taken_for_a_change_by_the_next_try() -> None:
    failing = turn("mutate", ok=False)

    assert violations(turn("observe"), failing, failing)[-1] == ("repeat_failed_call",)


def test_ending_is_free_where_nothing_was_changed() -> None:
    assert violations(turn("observe"), turn("terminal")) == [(), ()]


def test_ending_after_a_change_that_was_verified_is_free() -> None:
    path = [turn("observe"), turn("mutate"), turn("verify", ok=False), turn("terminal")]

    assert violations(*path)[-1] == ()


@pytest.mark.parametrize(
    ("categories", "names"),
    [
        ("observe mutate verify terminal", 3),
        ("mutate terminal", 1),
        ("observe mutate terminal", 2),
    ],
)
def test_a_rule_whose_way_out_no_tool_offers_is_left_out(
    categories: str, names: int
) -> None:
    book = generic_book(ToolCategory(word) for word in categories.split())

    assert len(book.rules) == names
