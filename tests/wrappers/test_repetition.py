from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.errors import CallerError
from rlvr_envs.records import Outcome, Status
from rlvr_envs.rewards.repetition import RepetitionRule, verbatim
from rlvr_envs.wrappers.repetition import RepetitionShaping
from tests.wrappers.worlds import Answer, Nameless, Scripted, bash, call, play

BROKEN = Answer(ok=False, error_kind="infra_error", status=Status.INFRA_ERROR)


def penalties(env: RepetitionShaping, *actions: str) -> list[float]:
    return [info["repetition"] for info in play(env, *actions)]


def test_polling_a_status_that_changes_costs_nothing() -> None:
    world = Scripted(*(Answer(f"{number} of 12") for number in range(12)))

    assert sum(penalties(RepetitionShaping(world), *[bash("cat status")] * 12)) == 0.0


def test_polling_a_status_that_stays_costs_up_to_the_cap() -> None:
    paid = penalties(RepetitionShaping(Scripted()), *[bash("cat status")] * 12)

    assert paid[:5] == pytest.approx([0.0, -0.05, -0.05, -0.05, 0.0])
    assert sum(paid) == pytest.approx(-0.15)


def test_a_loop_of_period_three_is_caught() -> None:
    period = [Answer("a b"), Answer("y"), Answer("", ok=False)]

    paid = penalties(
        RepetitionShaping(Scripted(*period * 6)),
        *[bash("ls"), bash("cat x"), bash("false")] * 6,
    )

    assert paid[:3] == [0.0, 0.0, 0.0]
    assert sum(paid) == pytest.approx(-0.15)


def test_turns_in_which_the_world_broke_cost_nothing() -> None:
    paid = penalties(RepetitionShaping(Scripted(BROKEN)), bash("make"), bash("make"))

    assert paid == [0.0, 0.0]


def test_variants_of_blanks_and_comments_are_repeats() -> None:
    paid = penalties(
        RepetitionShaping(Scripted()), bash("ls"), bash("ls "), bash("ls # 1")
    )

    assert paid == pytest.approx([0.0, -0.05, -0.05])


def test_the_tokenisation_is_a_parameter() -> None:
    rule = RepetitionRule(command_tokens=verbatim)
    env = RepetitionShaping(Scripted(), rule=rule)

    assert penalties(env, bash("ls"), bash("ls # 1")) == [0.0, 0.0]


def test_the_reward_and_the_outcome_pass_through_untouched() -> None:
    env = RepetitionShaping(Scripted())
    env.reset()
    for _ in range(3):
        env.step(bash("ls"))

    _, reward, _, _, info = env.step(call("submit"))

    assert reward == info["outcome"]["reward"] == 1.0
    assert info["outcome"] == Outcome(Status.PASSED, 1.0).to_json()


@given(st.lists(st.sampled_from([bash("a"), bash("b"), "no json"]), max_size=12))
def test_an_episode_knows_nothing_of_the_one_before(actions: list[str]) -> None:
    env = RepetitionShaping(Scripted())

    first, second = play(env, *actions), play(env, *actions)

    assert first == second
    assert all(type(info["repetition"]) is float for info in first)


def test_the_entry_is_there_after_a_reset() -> None:
    assert RepetitionShaping(Scripted()).reset()[1] == {"repetition": 0.0}


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="threshold"):
        RepetitionShaping(Scripted(), threshold=1.0)


def test_a_world_without_tools_is_refused() -> None:
    with pytest.raises(CallerError, match="tool_specs"):
        RepetitionShaping(Nameless())
