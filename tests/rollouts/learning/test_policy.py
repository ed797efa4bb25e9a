"""A softmax over a menu: a table of states, and a part that they share."""

from __future__ import annotations

import numpy as np
import pytest

from rlvr_envs.rollouts.learning.lessons import FOUR_SETTINGS, SPRING_CLEAN, Lesson
from rlvr_envs.rollouts.learning.policy import START, Choice, Policy, after

LESSONS = (SPRING_CLEAN, FOUR_SETTINGS)


def plain(sharing: float = 0.3) -> Policy:
    return Policy(np.zeros((3, 5)), sharing=sharing)


def test_it_starts_where_its_prior_is() -> None:
    assert plain().chances(START).tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.task)
def test_habits_are_the_first_chances(lesson: Lesson) -> None:
    policy = Policy(lesson.prior())
    first = policy.chances(START)
    favoured = np.log(first) - np.log(first[lesson.number("submit")])

    for entry, logit in lesson.habits.items():
        wanted = logit - lesson.habits["submit"]
        assert favoured[lesson.number(entry)] == pytest.approx(wanted)
    done = after(START, 0, ok=True)
    assert policy.chances(done)[0] < first[0]
    assert policy.chances(after(START, 0, ok=False)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("value", [1.0, -1.0])
@pytest.mark.parametrize("sharing", [0.0, 0.3])
def test_a_choice_becomes_likelier_exactly_if_it_did_better(
    value: float, sharing: float
) -> None:
    policy = plain(sharing)
    before = policy.chances(START)[1]
    policy.learn([(Choice(START, 1), value)], rate=0.5)

    assert (policy.chances(START)[1] > before) == (value > 0)


def test_only_the_shared_part_carries_over_to_other_states() -> None:
    elsewhere = after(START, 2, ok=True)
    for sharing, moves in ((0.0, False), (0.3, True)):
        policy = plain(sharing)
        policy.learn([(Choice(START, 1), 1.0)], rate=1.0)
        assert (policy.chances(elsewhere)[1] > 1 / 3) == moves


def test_the_gradient_is_that_of_the_log_chance() -> None:
    choice, rate = Choice(after(START, 0, ok=False), 2), 1e-5
    policy, moved = plain(), plain()
    norm = moved.learn([(choice, 1.0)], rate=rate)
    gain = np.log(moved.chances(choice.state)[2] / policy.chances(choice.state)[2])

    assert gain == pytest.approx(rate * norm**2, rel=1e-3)


def test_nothing_is_learned_from_nothing() -> None:
    policy = plain()

    assert policy.learn([(Choice(START, 1), 0.0)], rate=1.0) == 0.0
    assert policy.learn([], rate=1.0) == 0.0
    assert policy.chances(START).tolist() == pytest.approx([1 / 3] * 3)


def test_entropy_is_highest_where_nothing_is_preferred() -> None:
    policy = plain()
    high = policy.entropy([START])
    policy.learn([(Choice(START, 1), 1.0)], rate=5.0)

    assert high == pytest.approx(np.log(3))
    assert policy.entropy([START]) < high
    assert policy.entropy([]) == 0.0
