from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlvr_envs.records import Status
from rlvr_envs.rewards.advantages import (
    Group,
    batch_normal,
    dr_grpo,
    gdpo,
    grpo,
    river,
    tokens,
    two_channels,
)
from rlvr_envs.rewards.episode import Episode
from tests.rewards.builders import episode, groups

values = st.floats(-10, 10)
sized = st.integers(1, 6).flatmap(
    lambda size: st.tuples(
        arrays(np.float64, size, elements=values),
        arrays(np.bool_, size),
        st.permutations(range(size)),
    )
)


def test_the_worked_group_of_two_channels() -> None:
    group = Group.of([1, 0, 0, 0])
    path = [[0.0, 0.0], [-0.5, 0.0], [0.0, 0.0], [0.0, 0.0]]

    advantages = dr_grpo(group)
    both = two_channels(advantages, path, [[4, 6]] * 4)

    assert advantages == pytest.approx([0.75, -0.25, -0.25, -0.25])
    assert both.outcome[0] == pytest.approx([0.75 / 40] * 2)
    assert both.outcome[3] == pytest.approx([-0.25 / 40] * 2)
    assert both.total[1] == pytest.approx([-0.25 / 40 - 0.5 / 4, -0.25 / 40])


def test_a_turn_shares_its_value_among_its_tokens() -> None:
    assert tokens([0.5, -1.0], [2, 3]).tolist() == [0.5, 0.5, -1.0, -1.0, -1.0]


def test_eight_episodes_with_one_void_are_seven() -> None:
    void = episode(status=Status.INFRA_ERROR)
    group = Group.from_episodes([episode(1.0), *[episode(0.0)] * 6, void])

    advantages = dr_grpo(group)

    assert advantages[0] == pytest.approx(6 / 7)
    assert advantages[1:7] == pytest.approx([-1 / 7] * 6)
    assert advantages[7] == 0.0


def test_grpo_divides_by_the_deviation_of_the_group() -> None:
    group = Group.of([1, 0, 0, 0])

    assert grpo(group) == pytest.approx(np.array([3, -1, -1, -1]) / np.sqrt(3))
    assert grpo(group, ddof=1) == pytest.approx([1.5, -0.5, -0.5, -0.5])


@pytest.mark.parametrize("reward", [0.0, 0.3, 1.0])
def test_a_group_without_variance_teaches_nothing(reward: float) -> None:
    group = Group.of([reward] * 5)

    assert grpo(group).tolist() == [0.0] * 5
    assert dr_grpo(group) == pytest.approx([0.0] * 5)


@given(groups())
def test_advantages_sum_to_zero_over_the_baseline(drawn: list[Episode]) -> None:
    group = Group.from_episodes(drawn, scripted_in_baseline=False)

    for advantages in (grpo(group), dr_grpo(group)):
        assert np.isfinite(advantages).all()
        assert advantages[group.baseline].sum() == pytest.approx(0.0, abs=1e-6)


@given(groups(), st.integers(0, 8))
def test_a_void_episode_moves_nobody(drawn: list[Episode], place: int) -> None:
    void = episode(status=Status.INFRA_ERROR)
    more = [*drawn[:place], void, *drawn[place:]]
    spot = min(place, len(drawn))

    for estimator in (grpo, dr_grpo):
        alone = estimator(Group.from_episodes(drawn))
        among = estimator(Group.from_episodes(more))
        assert among[spot] == 0.0
        assert np.delete(among, spot) == pytest.approx(alone)


@given(sized)
def test_the_order_of_episodes_does_not_matter(
    drawn: tuple[np.ndarray, np.ndarray, list[int]],
) -> None:
    rewards, kept, order = drawn
    group = Group.of(rewards, scorable=kept)
    shuffled = Group.of(rewards[order], scorable=kept[order])

    assert dr_grpo(shuffled) == pytest.approx(dr_grpo(group)[order])
    assert grpo(shuffled) == pytest.approx(grpo(group)[order], abs=1e-6)


@given(sized, st.floats(0.1, 5), st.floats(-5, 5))
def test_grpo_forgets_scale_and_shift(
    drawn: tuple[np.ndarray, np.ndarray, list[int]],
    scale: float,
    shift: float,
) -> None:
    rewards, _, _ = drawn
    assume(np.ptp(rewards) > 1e-2)

    moved = grpo(Group.of(rewards * scale + shift))

    assert moved == pytest.approx(grpo(Group.of(rewards)), abs=1e-4)


def test_a_demonstration_can_be_kept_out_of_the_baseline() -> None:
    drawn = [episode(1.0, scripted=True), episode(0.0), episode(0.0)]

    inside = dr_grpo(Group.from_episodes(drawn))
    outside = dr_grpo(Group.from_episodes(drawn, scripted_in_baseline=False))

    assert inside == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    assert outside.tolist() == [1.0, 0.0, 0.0]


def test_the_norm_of_a_sum_hides_what_the_sum_of_norms_shows() -> None:
    pair = Group.of([0, 0])
    one_channel, both_channels = ([0, 1], [0, 0]), ([0, 1], [0, 1])

    summed = [
        grpo(pair.with_rewards(np.add(*channels)))
        for channels in (one_channel, both_channels)
    ]
    apart = [gdpo(pair, channels) for channels in (one_channel, both_channels)]

    assert summed[0] == pytest.approx(summed[1])
    assert apart[0] == pytest.approx([-1.0, 1.0])
    assert apart[1] == pytest.approx([-2.0, 2.0])


def test_channels_can_be_weighed() -> None:
    weighed = gdpo(Group.of([0, 0]), [[0, 1], [0, 1]], weights=[1, 0.5])

    assert weighed == pytest.approx([-1.5, 1.5])


def test_a_channel_without_variance_adds_nothing() -> None:
    group = Group.of([0, 0])

    assert gdpo(group, [[0, 1], [3, 3]]) == pytest.approx(grpo(Group.of([0, 1])))


def test_a_batch_is_brought_to_unit_size_without_its_void_episodes() -> None:
    normal = batch_normal([4.0, -2.0, 99.0], scorable=[True, True, False])

    assert normal == pytest.approx([1.0, -1.0, 0.0])


def test_repetition_is_added_after_normalisation() -> None:
    group = Group.of([0, 0])

    total = river(grpo(group), [[0.0, -0.05], [0.0]])

    assert [turn.tolist() for turn in total] == [[0.0, -0.05], [0.0]]


shapes = st.lists(st.integers(0, 5), min_size=1, max_size=5)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[float], list[list[float]], list[list[int]]]:
    lengths = draw(shapes)
    path = [draw(st.lists(values, min_size=n, max_size=n)) for n in lengths]
    sizes = [draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)) for n in lengths]
    return [draw(values) for _ in lengths], path, sizes


@given(batches(), st.data())
def test_void_episodes_get_nothing_and_dilute_nobody(
    drawn: tuple[list[float], list[list[float]], list[list[int]]], data: st.DataObject
) -> None:
    advantages, path, sizes = drawn
    flags = st.lists(st.booleans(), min_size=len(path), max_size=len(path))
    kept = np.array(data.draw(flags))
    picked = [index for index in range(len(path)) if kept[index]]

    both = two_channels(advantages, path, sizes, scorable=kept)
    alone = two_channels(
        [advantages[index] for index in picked],
        [path[index] for index in picked],
        [sizes[index] for index in picked],
    )

    for index, total in enumerate(both.total):
        assert total.shape == (len(path[index]),)
        assert kept[index] or not total.any()
    for mine, index in enumerate(picked):
        assert both.total[index] == pytest.approx(alone.total[mine])


@given(batches())
def test_per_token_values_have_the_length_of_the_tokens(
    drawn: tuple[list[float], list[list[float]], list[list[int]]],
) -> None:
    both = two_channels(*drawn)

    for total, size in zip(both.total, drawn[2], strict=True):
        assert tokens(total, size).shape == (sum(size),)


@given(batches())
def test_the_outcome_channel_is_a_mean_over_tokens(
    drawn: tuple[list[float], list[list[float]], list[list[int]]],
) -> None:
    advantages, path, sizes = drawn
    count = sum(map(sum, sizes))
    assume(count > 0)

    both = two_channels(advantages, path, sizes)

    paid = sum(
        float(tokens(part, size).sum())
        for part, size in zip(both.outcome, sizes, strict=True)
    )
    weighted = sum(a * sum(size) for a, size in zip(advantages, sizes, strict=True))
    assert paid == pytest.approx(weighted / count)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        Group.of([1, 0], scorable=[True])
    with pytest.raises(ValueError, match="shape"):
        Group.of([1, 0], scripted=[True])
    with pytest.raises(ValueError, match="one per episode"):
        two_channels([1.0], [[0.0], [0.0]], [[1], [1]])
    with pytest.raises(ValueError, match="one token count"):
        two_channels([1.0], [[0.0]], [[1, 2]])
    with pytest.raises(ValueError, match="shape"):
        gdpo(Group.of([1, 0]), [[1, 0, 0]])


@pytest.mark.parametrize("reward", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_is_refused(reward: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Group.of([reward, 0])
