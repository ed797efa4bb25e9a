from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.errors import CallerError
from rlvr_envs.records import Outcome, Status
from rlvr_envs.wrappers.path import PathRules
from tests.wrappers.worlds import Answer, Nameless, Scripted, bash, call, play

FAILED = Outcome(Status.FAILED, 0.0)
BROKEN = Answer(ok=False, error_kind="infra_error", status=Status.INFRA_ERROR)

actions = st.lists(
    st.sampled_from(
        [
            call("look"),
            call("change"),
            call("change", what="b"),
            call("check"),
            "no json",
            call("nobody"),
            bash("rm -rf /app"),
            bash("ls"),
        ]
    ),
    max_size=20,
)
answers = st.lists(st.builds(Answer, ok=st.booleans()), min_size=1, max_size=20)


def test_names_and_rewards_of_each_turn_are_in_its_info() -> None:
    steps = play(PathRules(Scripted()), call("change"), call("look"), call("change"))

    assert [info["violations"] for info in steps] == [["act_before_observe"], [], []]
    assert [info["path_reward"] for info in steps] == [-0.25, 0.0, 0.0]


def test_credits_are_paid_for_the_compliant_act() -> None:
    path = ["look", "change", "check", "submit"]

    steps = play(PathRules(Scripted()), *(call(name) for name in path))

    assert [info["fulfilments"] for info in steps] == [
        [],
        ["act_before_observe"],
        ["end_unverified"],
        [],
    ]
    assert [info["path_reward"] for info in steps] == pytest.approx(
        [0.0, 0.25, 0.10, 0.0]
    )


def test_the_reward_and_the_outcome_pass_through_untouched() -> None:
    env = PathRules(Scripted())
    env.reset()
    env.step(call("change"))

    _, reward, terminated, _, info = env.step(call("submit"))

    assert info["violations"] == ["end_unverified"]
    assert (reward, terminated) == (1.0, True)
    assert info["outcome"] == Outcome(Status.PASSED, 1.0).to_json()


@given(actions, actions, answers)
def test_a_failure_with_credits_stays_below_a_success_with_penalties(
    failing: list[str], passing: list[str], given_: list[Answer]
) -> None:
    lost = play(
        PathRules(Scripted(*given_, verdict=FAILED), penalty=0.5, credit=0.5),
        *failing,
        call("submit"),
    )
    won = play(
        PathRules(Scripted(*given_), penalty=0.5, credit=0.5), *passing, call("submit")
    )

    assert total(lost) < total(won)


def total(steps: list[dict[str, Any]]) -> float:
    path = math.fsum(info["path_reward"] for info in steps)
    return float(steps[-1]["outcome"]["reward"]) + path


def test_the_best_failure_stays_below_the_worst_success() -> None:
    kind = [call(name) for name in ("look", "change", "check", "submit")]
    rude = [call("change", what=str(number)) for number in range(9)]

    lost = play(PathRules(Scripted(verdict=FAILED), penalty=9.0, credit=9.0), *kind)
    won = play(PathRules(Scripted(), penalty=9.0, credit=9.0), *rude, call("submit"))

    assert total(lost) == pytest.approx(0.35)
    assert total(won) == pytest.approx(0.65)


@given(actions, answers)
def test_an_episode_knows_nothing_of_the_one_before(
    path: list[str], given_: list[Answer]
) -> None:
    env = PathRules(Scripted(*given_))

    assert play(env, *path) == play(env, *path)


@given(actions)
def test_entries_always_have_one_type(path: list[str]) -> None:
    for info in play(PathRules(Scripted(), book="terminal"), *path):
        assert type(info["violations"]) is type(info["fulfilments"]) is list
        assert type(info["path_reward"]) is float


def test_entries_are_there_after_a_reset() -> None:
    _, info = PathRules(Scripted()).reset()

    assert info == {"violations": [], "fulfilments": [], "path_reward": 0.0}


def test_a_turn_in_which_the_world_broke_is_not_judged() -> None:
    (info,) = play(PathRules(Scripted(BROKEN)), call("change"))

    assert (info["violations"], info["path_reward"]) == ([], 0.0)


@pytest.mark.parametrize("action", ["no json", call("nobody"), "", '{"name": 1}'])
def test_what_is_no_call_is_no_change(action: str) -> None:
    refused = Answer(ok=False, error_kind="malformed_call")

    (info,) = play(PathRules(Scripted(refused)), action)

    assert info["violations"] == []


def test_calls_in_openai_form_are_read() -> None:
    action = {"type": "function", "function": {"name": "change", "arguments": "{}"}}

    (info,) = play(PathRules(Scripted()), action)

    assert info["violations"] == ["act_before_observe"]


def test_the_terminal_book_reads_commands() -> None:
    env = PathRules(Scripted(), book="terminal")

    steps = play(env, bash("rm -rf /app"), bash("ls /srv"), bash("rm -rf /srv/x"))

    assert [info["violations"] for info in steps] == [["blind_destruction"], [], []]
    assert steps[2]["fulfilments"] == ["blind_destruction"]


def test_annealing_takes_effect_at_the_next_reset() -> None:
    env = PathRules(Scripted())
    env.reset()
    env.set_wrapper_attr("path_weight", 0.5)

    now = env.step(call("change"))[4]["path_reward"]
    (info,) = play(env, call("change"))

    assert (now, info["path_reward"]) == (-0.25, -0.125)


def test_the_unbounded_term_can_be_had_from_the_info() -> None:
    env = PathRules(Scripted(), penalty=0.5)

    steps = play(env, call("change"), call("change", what="b"))

    assert [env.term(info) for info in steps] == [-0.5, -0.5]
    assert [info["path_reward"] for info in steps] == [-0.35, 0.0]


def test_a_world_without_tools_is_refused_with_the_remedy() -> None:
    with pytest.raises(CallerError, match=r"tool_specs.*Remedy"):
        PathRules(Nameless())


def test_an_unknown_book_is_refused() -> None:
    with pytest.raises(ValueError, match="known: generic, sql, terminal"):
        PathRules(Scripted(), book="cook")
