from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.records import Outcome, Status
from rlvr_envs.rewards.episode import Turn
from rlvr_envs.rewards.hygiene import (
    CEILING,
    REFUND,
    STANDARD,
    Lapse,
    bill,
    charged,
    identical_reads,
    malformed_retries,
)
from tests.rewards.builders import (
    LOSS,
    VOID,
    WIN,
    bash,
    episode,
    paths,
    read,
    refused,
    write,
)


def test_nine_turns_of_six_cost_a_win_three_prices() -> None:
    turns = [read(f"/{number}") for number in range(9)]

    paid = charged(WIN, bill(turns, REFUND))

    assert paid.reward == pytest.approx(0.976)
    assert paid.efficiency_penalty == pytest.approx(0.024)


def test_the_same_path_costs_a_loss_nothing() -> None:
    turns = [read(f"/{number}") for number in range(9)]

    assert charged(LOSS, bill(turns, REFUND)) is LOSS


def test_the_refund_task_takes_eight_hundredths_at_most() -> None:
    turns = [read(f"/{number}") for number in range(40)]

    assert charged(WIN, bill(turns, REFUND)).reward == pytest.approx(0.92)


@given(paths, st.sampled_from([0.0, 0.25]))
def test_only_wins_pay(turns: tuple[Turn, ...], partial: float) -> None:
    owed = bill(turns)
    losses = [
        Outcome(Status.FAILED, partial),
        Outcome(Status.TAMPERED, 0.0),
        VOID,
    ]

    assert all(charged(outcome, owed) == outcome for outcome in losses)


@given(paths)
def test_a_win_keeps_more_than_nine_tenths(turns: tuple[Turn, ...]) -> None:
    untidy = turns * 5
    long_thoughts = tuple(replace(turn, reasoning_tokens=9999) for turn in untidy)

    paid = charged(WIN, bill(long_thoughts, (*STANDARD, *REFUND)))

    assert 0.90 < paid.reward <= 1.0
    assert paid.reward + paid.efficiency_penalty == pytest.approx(1.0)


def test_a_read_again_with_nothing_changed_is_a_lapse() -> None:
    assert identical_reads([read("/a"), read("/b"), read("/a"), read("/a")]) == 2


def test_a_read_after_a_change_is_none() -> None:
    assert identical_reads([read("/a"), write("/a"), read("/a")]) == 0


def test_polling_an_answer_that_changes_is_none() -> None:
    assert identical_reads([read("/a", "1"), read("/a", "2"), read("/a", "3")]) == 0


def test_the_first_refused_call_is_free() -> None:
    assert malformed_retries([refused(), bash("ls"), refused()]) == 0


def test_refused_calls_in_a_row_are_lapses() -> None:
    assert malformed_retries([refused(), refused(), refused()]) == 2


def test_long_reasoning_is_a_lapse() -> None:
    turn = replace(bash("ls"), reasoning_tokens=2049)

    assert dict(bill([turn]).items) == {"bloated_reasoning": 0.005}


def test_a_void_turn_is_not_held_against_anyone() -> None:
    void = replace(read("/a"), void=True)

    assert bill([read("/a"), void, void]).total == 0.0


@pytest.mark.parametrize("price", [0.0, 0.004, 0.041])
def test_a_price_outside_the_range_is_refused(price: float) -> None:
    with pytest.raises(ValueError, match="A lapse costs"):
        Lapse("x", len, price)


def test_a_cap_above_the_ceiling_is_refused() -> None:
    with pytest.raises(ValueError, match="capped"):
        Lapse("x", len, 0.01, cap=CEILING + 0.01)


def test_the_verdict_of_an_episode_stays_as_it_was() -> None:
    won = episode(1.0, *[read("/a")] * 9)

    charged(won.outcome, bill(won.turns))

    assert won.reward == 1.0
