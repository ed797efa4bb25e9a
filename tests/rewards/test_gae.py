from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlvr_envs.rewards.gae import gae, token_gae, turn_gae

unit = st.floats(0.0, 1.0)
floats = st.floats(-5, 5)
runs = st.integers(1, 12).flatmap(
    lambda size: st.tuples(
        arrays(np.float64, size, elements=floats),
        arrays(np.float64, size, elements=floats),
        arrays(np.bool_, size),
    )
)


def test_a_hand_worked_chain() -> None:
    advantages = gae([0.0, 1.0], [0.5, 0.6], gamma=0.9, lam=0.5)

    last = 1.0 - 0.6
    assert advantages == pytest.approx([0.9 * 0.6 - 0.5 + 0.45 * last, last])


@given(runs, unit, floats)
def test_without_decay_it_is_the_return_less_the_value(
    run: tuple[np.ndarray, ...],
    gamma: float,
    bootstrap: float,
) -> None:
    rewards, values, _ = run
    returns, following = np.zeros_like(rewards), bootstrap
    for step in reversed(range(len(rewards))):
        returns[step] = following = rewards[step] + gamma * following

    advantages = gae(rewards, values, gamma=gamma, lam=1.0, bootstrap=bootstrap)

    assert advantages + values == pytest.approx(returns, abs=1e-9)


@given(runs, unit)
def test_with_full_decay_it_is_the_error_of_one_step(
    run: tuple[np.ndarray, ...],
    gamma: float,
) -> None:
    rewards, values, _ = run

    advantages = gae(rewards, values, gamma=gamma, lam=0.0)

    expected = rewards + gamma * np.append(values[1:], 0.0) - values
    assert advantages == pytest.approx(expected)


@given(runs, unit, unit)
def test_tokens_of_the_environment_get_no_gradient_and_no_discount(
    run: tuple[np.ndarray, ...],
    gamma: float,
    lam: float,
) -> None:
    rewards, values, mask = run
    mask = np.append(True, mask)
    rewards, values = np.append(0.0, rewards) * mask, np.append(0.0, values)

    advantages = token_gae(rewards, values, mask, gamma=gamma, lam=lam)

    alone = gae(rewards[mask], values[mask], gamma=gamma, lam=lam)
    assert advantages.shape == mask.shape
    assert not advantages[~mask].any()
    assert advantages[mask] == pytest.approx(alone)


def test_a_reward_on_an_observation_belongs_to_the_act_before_it() -> None:
    mask = [True, True, False, False, True]
    late = token_gae([0, 0, 0, 1, 0], np.zeros(5), mask, gamma=1.0, lam=0.0)
    early = token_gae([0, 1, 0, 0, 0], np.zeros(5), mask, gamma=1.0, lam=0.0)

    assert late.tolist() == early.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_a_reward_that_no_act_earned_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing earned it"):
        token_gae([1, 0], [0, 0], [False, True], gamma=1.0, lam=1.0)


def test_turns_are_discounted_once_whatever_their_length() -> None:
    turns = [-1, 0, 0, 0, -1, -1, 1, -1]
    rewards = [0, 0, 0, 0, 0, 0, 0, 1]

    advantages = turn_gae(rewards, np.zeros(8), turns, gamma=0.5, lam=1.0)

    assert advantages.tolist() == [0, 0.5, 0.5, 0.5, 0, 0, 1, 0]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=5),
    unit,
    unit,
)
def test_turns_of_one_token_are_tokens(
    shape: list[tuple[int, int]], gamma: float, lam: float
) -> None:
    turns = [
        turn for index, (_, seen) in enumerate(shape) for turn in [index, *[-1] * seen]
    ]
    rng = np.arange(len(turns), dtype=np.float64)
    mask = np.array(turns) >= 0

    by_turn = turn_gae(rng, rng / 2, turns, gamma=gamma, lam=lam)
    by_token = token_gae(rng, rng / 2, mask, gamma=gamma, lam=lam)

    assert by_turn == pytest.approx(by_token)


@pytest.mark.parametrize("turns", [[1, 0], [0, 2], [1, 1]])
def test_turns_out_of_order_are_refused(turns: list[int]) -> None:
    with pytest.raises(ValueError, match="in order"):
        turn_gae([0, 0], [0, 0], turns, gamma=1.0, lam=1.0)


def test_an_episode_without_acts_has_no_advantage() -> None:
    assert token_gae([0, 0], [1, 1], [False, False], gamma=1.0, lam=1.0).tolist() == [
        0.0,
        0.0,
    ]


@pytest.mark.parametrize(
    "factors", [{"gamma": 1.1, "lam": 0.0}, {"gamma": 1.0, "lam": -0.1}]
)
def test_factors_out_of_range_are_refused(factors: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"lie in \[0, 1\]"):
        gae([0.0], [0.0], **factors)


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        gae([0.0], [0.0, 1.0], gamma=1.0, lam=1.0)
    with pytest.raises(ValueError, match="one shape"):
        token_gae([0.0], [0.0, 1.0], [True, True], gamma=1.0, lam=1.0)
