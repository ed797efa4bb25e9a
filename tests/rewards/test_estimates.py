from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.rewards.estimates import Tally, mean_pass_at_k, pass_at_k, tally
from tests.rewards.builders import LOSS, VOID, WIN

counts = st.integers(1, 9).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))
)


def test_a_void_episode_is_neither_tried_nor_passed() -> None:
    counted = tally([WIN, *[LOSS] * 6, VOID])

    assert counted == Tally(7, 1)
    assert counted.rate == pytest.approx(1 / 7)


def test_pass_at_4_of_one_win_in_eight_is_a_half() -> None:
    assert pass_at_k(Tally(8, 1), 4) == pytest.approx(0.5)


@given(counts)
def test_pass_at_k_is_the_share_of_draws_that_hold_a_win(
    drawn: tuple[int, int, int],
) -> None:
    n, c, k = drawn
    draws = list(combinations(range(n), k))
    share = sum(min(draw) < c for draw in draws) / len(draws)

    assert pass_at_k(Tally(n, c), k) == pytest.approx(share)


@given(counts)
def test_more_tries_never_lower_it(drawn: tuple[int, int, int]) -> None:
    n, c, k = drawn

    estimates = [pass_at_k(Tally(n, c), tries) for tries in range(1, k + 1)]

    assert estimates == sorted(estimates)
    assert estimates[0] == pytest.approx(c / n)


@pytest.mark.parametrize("k", [0, 9])
def test_k_out_of_range_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match="more groups"):
        pass_at_k(Tally(8, 1), k)


def test_groups_add_up_until_sixteen_tries_are_there() -> None:
    group = Tally(8, 1)

    assert mean_pass_at_k([group], 16) is None
    assert mean_pass_at_k([group + group, Tally(16, 0)], 16) == pytest.approx(0.5)


def test_more_passes_than_tries_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot pass"):
        Tally(1, 2)


def test_nothing_tried_is_a_rate_of_zero() -> None:
    assert Tally().rate == 0.0
