from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.records import ToolCategory
from rlvr_envs.rewards.episode import Act, Turn
from rlvr_envs.rewards.generic_rules import generic_book
from rlvr_envs.rewards.path_rules import (
    REFERENCE,
    Bounds,
    Ledger,
    PathEngine,
    PathRule,
    RuleBook,
    State,
    Weights,
)
from rlvr_envs.rewards.terminal_rules import terminal_book
from tests.rewards.builders import bash, paths, refused, submit

BOOKS = [generic_book(), terminal_book()]
books = st.sampled_from(BOOKS)
weights = st.builds(Weights, st.floats(0.0, 2.0), st.floats(0.0, 2.0))
bounds = st.floats(0.0, 0.999).flatmap(
    lambda share: (
        st.builds(Bounds, st.just(share), st.floats(0.0, 0.9989 - share))
        if share < 0.9989
        else st.just(Bounds(share, 0.0))
    )
)


def milestone(key: str) -> PathRule:
    """Credit a command that starts with a word; penalise one that undoes it."""
    return PathRule(
        name=key,
        violates=lambda _, act: command(act) == f"undo {key}",
        fulfils=lambda _, act: key if command(act) == f"do {key}" else "",
    )


def command(act: Act) -> str:
    return str(act.call.arguments.get("command", ""))


def count(state: State, turn: Turn) -> State:
    return {"turns": state.get("turns", 0) + 1}


BOOK = RuleBook("demo", (milestone("a"), milestone("b")), count)


def test_an_obligation_is_paid_once_even_if_undone_and_met_again() -> None:
    path = [bash("do a"), bash("undo a"), bash("do a"), bash("do b")]

    judged = PathEngine(BOOK, REFERENCE).score(path)

    assert [turn.fulfilments for turn in judged] == [("a",), (), (), ("b",)]
    assert [turn.violations for turn in judged] == [(), ("a",), (), ()]
    assert [turn.term for turn in judged] == [0.5, -0.5, 0.0, 0.5]


def test_the_act_is_judged_by_the_state_before_it() -> None:
    rule = PathRule(
        "second", lambda state, _: state.get("turns", 0) == 1, lambda *_: ""
    )
    book = RuleBook("order", (rule,), count)

    judged = PathEngine(book).score([bash("a"), bash("b"), bash("c")])

    assert [turn.violations for turn in judged] == [(), ("second",), ()]


def test_a_call_that_never_ran_meets_no_obligation() -> None:
    always = PathRule("any", lambda *_: False, lambda *_: "met")
    book = RuleBook("any", (always,), count)

    judged = PathEngine(book).score([refused(), bash("ls")])

    assert [turn.fulfilments for turn in judged] == [(), ("any",)]


@given(books, paths)
def test_a_void_turn_is_neither_judged_nor_remembered(
    book: RuleBook, turns: tuple[Turn, ...]
) -> None:
    engine = PathEngine(book)
    judged = engine.score(turns)

    real = engine.score([turn for turn in turns if not turn.void])

    kept = [item for item, turn in zip(judged, turns, strict=True) if not turn.void]
    assert kept == list(real)


@given(books, paths, paths, weights, bounds)
def test_a_failure_with_credits_stays_below_a_success_with_penalties(
    book: RuleBook,
    failing: tuple[Turn, ...],
    passing: tuple[Turn, ...],
    chosen: Weights,
    limit: Bounds,
) -> None:
    engine = PathEngine(book, chosen, limit)

    gained = math.fsum(max(turn.reward, 0.0) for turn in engine.score(failing))
    failed = 0.0 + math.fsum(turn.reward for turn in engine.score(failing))
    passed = 1.0 + math.fsum(turn.reward for turn in engine.score(passing))

    assert failed <= gained
    assert failed < passed


@given(books, paths, weights, bounds)
def test_rewards_stay_within_their_bounds(
    book: RuleBook, turns: tuple[Turn, ...], chosen: Weights, limit: Bounds
) -> None:
    engine, ledger = PathEngine(book, chosen, limit), Ledger()

    for turn in turns * 3:
        judged, ledger = engine.after(ledger, turn)
        assert 0.0 <= ledger.lost <= limit.penalties
        assert 0.0 <= ledger.gained <= limit.credits
        assert (
            math.copysign(1.0, judged.reward) == math.copysign(1.0, judged.term)
            or 0.0 in (judged.reward, judged.term)
            or (judged.violations and judged.fulfilments)
        )


@given(books, paths, weights)
def test_a_term_can_be_had_again_from_the_names(
    book: RuleBook, turns: tuple[Turn, ...], chosen: Weights
) -> None:
    engine = PathEngine(book, chosen)

    for judged in engine.score(turns):
        assert engine.term(judged.violations, judged.fulfilments) == judged.term


@given(books, paths)
def test_judging_is_pure(book: RuleBook, turns: tuple[Turn, ...]) -> None:
    engine = PathEngine(book)

    assert engine.score(turns) == engine.score(turns)


@given(paths)
def test_the_classification_can_change_what_a_turn_is_but_not_what_it_did(
    turns: tuple[Turn, ...],
) -> None:
    book = terminal_book()

    for turn in turns:
        assert replace(book.seen(turn), category=turn.category) == turn


def test_without_bounds_to_spare_penalties_and_credits_stop() -> None:
    engine = PathEngine(BOOK, Weights(0.25, 0.25), Bounds(0.35, 0.35))

    rewards = [turn.reward for turn in engine.score([bash("undo a")] * 3)]

    assert rewards == pytest.approx([-0.25, -0.10, 0.0])


def test_bounds_that_could_turn_the_order_round_are_refused() -> None:
    with pytest.raises(ValueError, match="above a success"):
        Bounds(0.5, 0.5)


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan])
def test_weights_and_bounds_out_of_range_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="penalty"):
        Weights(penalty=value)
    with pytest.raises(ValueError, match="credits"):
        Bounds(credits=value)


@pytest.mark.parametrize("factors", [{"penalty": 0.0}, {"credit": 1.5}])
def test_factors_of_a_rule_out_of_range_are_refused(factors: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="factor"):
        PathRule("x", lambda *_: False, lambda *_: "", **factors)  # type: ignore[arg-type]


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="share a name"):
        RuleBook("twice", (milestone("a"), milestone("a")), count)


def test_annealing_scales_both_weights() -> None:
    assert REFERENCE.scaled(0.5) == Weights(0.25, 0.25)


def test_ending_at_once_meets_nothing_and_violates_nothing() -> None:
    for book in BOOKS:
        (judged,) = PathEngine(book).score([submit()])
        assert (judged.violations, judged.fulfilments) == ((), ())


def test_a_category_is_refined_before_a_rule_sees_it() -> None:
    seen = terminal_book().seen(bash("ls -la"))

    assert seen.category is ToolCategory.OBSERVE
