from __future__ import annotations

from dataclasses import replace

import pytest

from rlvr_envs.records import ErrorKind, Status, ToolCall, ToolCategory
from rlvr_envs.rewards.episode import Act, Turn, scorable
from tests.rewards.builders import VOID, bash, episode


def test_equal_calls_have_one_key_whatever_the_order_of_their_arguments() -> None:
    one = Act(ToolCall("exec", {"a": 1, "b": 2}), ToolCategory.MUTATE)
    other = Act(ToolCall("exec", {"b": 2, "a": 1}), ToolCategory.MUTATE)

    assert one.key == other.key


def test_a_turn_is_read_from_what_a_step_returned() -> None:
    info = {"ok": False, "error_kind": "nonzero_exit", "exit_code": 2}

    turn = Turn.from_info(ToolCall("bash"), "no", info, tokens=7)

    assert (turn.ok, turn.exit_code, turn.tokens, turn.void) == (False, 2, 7, False)
    assert turn.error_kind is ErrorKind.NONZERO_EXIT
    assert turn.ran


def test_a_step_in_which_the_world_broke_is_void() -> None:
    info = {"ok": False, "error_kind": "infra_error", "outcome": VOID.to_json()}

    turn = Turn.from_info(ToolCall("bash"), "", info)

    assert turn.void
    assert turn.error_kind is ErrorKind.NONE


def test_a_refused_call_never_ran() -> None:
    turn = Turn.from_info(ToolCall(""), "", {"error_kind": "malformed_call"})

    assert not turn.ran


def test_only_episodes_with_a_learning_signal_are_kept() -> None:
    void, lost = episode(status=Status.INFRA_ERROR), episode(0.0)

    assert scorable([void, lost]) == (lost,)


def test_an_episode_counts_its_action_tokens() -> None:
    assert episode(1.0, bash("a", tokens=3), bash("b", tokens=4)).tokens == 7


def test_fewer_than_no_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        bash("ls", tokens=-1)


def test_a_turn_under_another_category_is_the_same_turn_otherwise() -> None:
    turn = Turn(
        ToolCall("run", {"a": 1}),
        "seen",
        ToolCategory.MUTATE,
        ok=False,
        error_kind=ErrorKind.TIMEOUT,
        exit_code=3,
        tokens=4,
        reasoning_tokens=2,
        state={"x": 1},
        void=True,
    )

    other = turn.as_category(ToolCategory.OBSERVE)

    assert other == replace(turn, category=ToolCategory.OBSERVE)
