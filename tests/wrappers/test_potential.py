from __future__ import annotations

import math
from typing import Any

import pytest

from rlvr_envs.errors import CallerError
from rlvr_envs.records import Outcome, Status
from rlvr_envs.rewards.potential import Milestone, Milestones, changed
from rlvr_envs.state import Change, StateDiff
from rlvr_envs.wrappers.potential import PotentialShaping
from tests.wrappers.worlds import Answer, Differing, Scripted, call, play


def level(diff: StateDiff) -> float:
    return float(diff.facts.get("phi", 0.2))


def at(phi: float, *, truncated: bool = False, damage: bool = False) -> Answer:
    collateral = ("/etc/x",) if damage else ()
    diff = StateDiff(collateral=collateral, facts={"phi": phi})
    return Answer(diff=diff, truncated=truncated)


def wrapped(*answers: Answer, gamma: float = 0.9) -> PotentialShaping:
    return PotentialShaping(Differing(*answers), potential=level, gamma=gamma)


def terms(env: Any, *actions: str) -> list[float]:
    return [info["shaping"] for info in play(env, *actions)]


def test_the_worked_example_of_a_task_that_ended() -> None:
    env = wrapped(at(0.5), at(0.9), at(0.9))

    paid = terms(env, call("change"), call("change"), call("submit"))

    assert paid == pytest.approx([0.25, 0.31, -0.90])
    assert math.fsum(0.9**t * term for t, term in enumerate(paid)) == pytest.approx(
        -0.2
    )


def test_the_worked_example_of_a_budget_that_ended() -> None:
    env = wrapped(at(0.5), at(0.9), at(0.8, truncated=True))

    assert terms(env, *[call("change")] * 3)[-1] == pytest.approx(-0.18)


def test_collateral_damage_gives_back_what_progress_paid() -> None:
    env = wrapped(at(0.9), at(0.9, damage=True), gamma=1.0)

    assert terms(env, *[call("change")] * 2) == pytest.approx([0.7, -0.9])


def test_the_reward_and_the_outcome_pass_through_untouched() -> None:
    env = wrapped(at(0.5))
    env.reset()

    _, reward, _, _, info = env.step(call("submit"))

    assert reward == 1.0
    assert info["outcome"] == Outcome(Status.PASSED, 1.0).to_json()


def test_an_episode_whose_world_broke_gets_no_term() -> None:
    broken = Answer(status=Status.INFRA_ERROR, diff=StateDiff(facts={"phi": 0.9}))

    assert terms(wrapped(broken), call("change")) == [0.0]


def test_a_weight_holds_for_a_whole_episode() -> None:
    env = wrapped(at(0.5), gamma=1.0)
    env.reset()
    env.set_wrapper_attr("potential_weight", 0.0)

    assert env.step(call("change"))[4]["shaping"] == pytest.approx(0.3)
    assert terms(env, call("change")) == [0.0]


def test_entries_have_one_type_from_the_reset_on() -> None:
    env = wrapped(at(0.5))

    infos = [env.reset()[1], *play(env, call("change"), call("submit"))]

    assert {type(info[key]) for info in infos for key in ("potential", "shaping")} == {
        float
    }


def test_a_potential_can_be_named() -> None:
    env = PotentialShaping(
        Differing(Answer(diff=StateDiff((Change("/app/a", "added", "file"),)))),
        potential="tests.wrappers.test_potential:MADE",
    )

    assert play(env, call("change"))[0]["potential"] == 1.0


MADE = Milestones((Milestone("made", changed("/app/a")),))


def test_a_world_that_cannot_show_its_state_is_refused() -> None:
    with pytest.raises(CallerError, match=r"diff.*Remedy|Remedy.*diff"):
        PotentialShaping(Scripted(), potential=level)


def test_a_discount_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="gamma"):
        wrapped(gamma=1.5)


def test_a_weight_out_of_range_is_refused() -> None:
    env = wrapped()
    env.potential_weight = math.nan

    with pytest.raises(ValueError, match="potential_weight"):
        env.reset()
