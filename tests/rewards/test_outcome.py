from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.records import Check, Outcome, Status
from rlvr_envs.rewards.episode import Turn
from rlvr_envs.rewards.hygiene import bill, charged
from rlvr_envs.rewards.outcome import BEST_FAILURE, WORST_PASS, shaped_scalar, sparse
from rlvr_envs.rewards.path_rules import PathEngine, Weights
from rlvr_envs.rewards.repetition import repetition_penalties
from rlvr_envs.rewards.terminal_rules import terminal_book
from tests.rewards.builders import LOSS, VOID, WIN, paths

terms = st.lists(st.floats(-1e6, 1e6), max_size=4)


def test_the_reward_is_one_only_if_every_check_holds() -> None:
    good, bad = Check("a", passed=True), Check("b", passed=False)

    assert sparse([good]) == 1.0
    assert sparse([good, bad]) == 0.0


def test_no_checks_earn_nothing() -> None:
    assert sparse([]) == 0.0


@given(terms, terms, st.sampled_from([0.0, 0.25, 1.0]))
def test_no_shaping_lifts_a_failure_above_a_pass(
    up: list[float], down: list[float], partial: float
) -> None:
    failed = shaped_scalar(Outcome(Status.FAILED, partial), *up)
    tampered = shaped_scalar(Outcome(Status.TAMPERED, 0.0), *up)
    passed = shaped_scalar(Outcome(Status.PASSED, 0.901), *down)

    assert max(failed, tampered) <= BEST_FAILURE < WORST_PASS <= passed


@given(terms)
def test_an_unscorable_episode_is_worth_nothing(shaping: list[float]) -> None:
    assert shaped_scalar(VOID, *shaping) == 0.0


@pytest.mark.parametrize("term", [math.nan, math.inf, -math.inf])
def test_a_term_that_is_not_finite_is_refused(term: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        shaped_scalar(WIN, term)


@given(paths, paths)
def test_default_channels_keep_the_order_without_the_cut(
    passing: tuple[Turn, ...],
    failing: tuple[Turn, ...],
) -> None:
    engine = PathEngine(terminal_book(), Weights(0.5, 0.5))

    def plain_sum(outcome: Outcome, turns: tuple[Turn, ...]) -> float:
        path = math.fsum(turn.reward for turn in engine.score(turns))
        repeated = float(repetition_penalties(turns).sum())
        return charged(outcome, bill(turns)).reward + path + repeated

    assert plain_sum(LOSS, failing) <= BEST_FAILURE
    assert plain_sum(WIN, passing) >= WORST_PASS - 1e-12
