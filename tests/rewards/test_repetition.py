from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.records import ToolCall
from rlvr_envs.rewards.episode import Turn
from rlvr_envs.rewards.repetition import (
    RepetitionRule,
    jaccard,
    repetition_penalties,
    verbatim,
    words,
)
from tests.rewards.builders import bash, paths, read, write

tokens = st.frozensets(st.text(max_size=2), max_size=6)


def total(turns: list[Turn], rule: RepetitionRule | None = None) -> float:
    return float(repetition_penalties(turns, rule=rule).sum())


def test_three_repeats_cost_a_twentieth_each_and_a_fourth_nothing() -> None:
    penalties = repetition_penalties([bash("cat status", "idle")] * 5)

    assert penalties == pytest.approx([0.0, -0.05, -0.05, -0.05, 0.0])


def test_polling_an_answer_that_changes_costs_nothing() -> None:
    turns = [bash("cat status", f"{number} of 12 done") for number in range(12)]

    assert total(turns) == 0.0


def test_polling_a_long_answer_that_hardly_changes_costs_nothing() -> None:
    same = "\n".join(f"service {number} is up" for number in range(200))
    turns = [bash("svc list", f"{same}\n{number} waiting") for number in range(12)]

    assert total(turns) == 0.0


def test_twelve_calls_unchanged_cost_what_the_cap_allows() -> None:
    penalties = repetition_penalties([bash("cat status", "idle")] * 12)

    assert penalties[0] == 0.0
    assert penalties.sum() == pytest.approx(-0.15)


def test_a_loop_of_period_three_is_caught() -> None:
    period = [bash("ls", "a b"), bash("cat x", "y"), bash("false", "", ok=False)]

    penalties = repetition_penalties(period * 6)

    assert penalties[:3].tolist() == [0.0, 0.0, 0.0]
    assert penalties.sum() == pytest.approx(-0.15)


def test_retries_after_a_fault_of_the_harness_cost_nothing() -> None:
    void = replace(bash("make", "the world broke"), void=True)

    assert total([void, void, bash("make", "done")]) == 0.0


@pytest.mark.parametrize("variant", ["ls ", " ls", "ls # 1", "ls\t"])
def test_blanks_and_comments_do_not_make_another_command(variant: str) -> None:
    assert total([bash("ls", "a"), bash(variant, "a")]) == pytest.approx(-0.05)


def test_without_normalisation_a_comment_makes_another_command() -> None:
    rule = RepetitionRule(command_tokens=verbatim)

    assert total([bash("ls", "a"), bash("ls # 1", "a")], rule) == 0.0


def test_the_same_question_of_another_file_is_no_repeat() -> None:
    assert total([read("/a", "x"), read("/b", "x")]) == 0.0


def test_another_content_written_to_the_same_file_is_no_repeat() -> None:
    call = ToolCall("write_file", {"path": "/app/sol.py", "content": "y"})

    assert (
        total([write("/app/sol.py"), replace(write("/app/sol.py"), call=call)]) == 0.0
    )


def test_a_command_that_cannot_be_split_is_compared_by_its_words() -> None:
    assert total([bash("echo 'a", "x"), bash("echo  'a", "x")]) == pytest.approx(-0.05)


def test_words_catch_a_loop_with_a_little_noise() -> None:
    text = "a b c d e f g h i"
    turns = [bash("make", f"{text} 1"), bash("make", f"{text} {text}")]

    assert total(turns) == 0.0
    assert total(turns, RepetitionRule(observation_tokens=words)) == pytest.approx(
        -0.05
    )


def test_similarity_at_the_threshold_is_no_repeat() -> None:
    rule = RepetitionRule(observation_tokens=words)
    turns = [bash("x", "a b c d"), bash("x", "a b c d e")]

    assert jaccard(words("a b c d"), words("a b c d e")) == 0.8
    assert total(turns, rule) == 0.0


@given(tokens, tokens)
def test_similarity_is_symmetric_and_bounded(
    one: frozenset[str], other: frozenset[str]
) -> None:
    assert jaccard(one, other) == jaccard(other, one)
    assert 0.0 <= jaccard(one, other) <= 1.0
    assert jaccard(one, one) == 1.0


@given(paths, st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_no_episode_pays_more_than_the_cap(
    turns: tuple[Turn, ...], penalty: float, cap: float
) -> None:
    rule = RepetitionRule(penalty=penalty, cap=cap)

    penalties = repetition_penalties(turns * 2, rule=rule)

    assert penalties.shape == (2 * len(turns),)
    assert (penalties <= 0.0).all()
    assert penalties.sum() >= -cap - 1e-12


@given(paths)
def test_a_void_turn_changes_nothing_for_the_others(turns: tuple[Turn, ...]) -> None:
    real = [turn for turn in turns if not turn.void]
    kept = repetition_penalties(turns)[[not turn.void for turn in turns]]

    assert np.array_equal(kept, repetition_penalties(real))


@pytest.mark.parametrize(
    "bad", [{"threshold": 1.0}, {"penalty": -0.1}, {"cap": float("nan")}]
)
def test_numbers_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        RepetitionRule(**bad)  # type: ignore[arg-type]
