"""Every rule of every book: where it fires, where it must not, and its way out."""

from __future__ import annotations

import pytest

from rlvr_envs.records import ToolCategory
from rlvr_envs.rewards.books import BOOKS, book_named
from rlvr_envs.rewards.path_rules import PathEngine, PathRule, RuleBook

ROWS = [
    pytest.param(book, rule, id=f"{book.name}-{rule.name}")
    for book in (book_named(name, ToolCategory) for name in BOOKS)
    for rule in book.rules
]


def test_there_are_rules_to_check() -> None:
    assert len(ROWS) == 9


@pytest.mark.parametrize(("book", "rule"), ROWS)
def test_no_rule_lacks_its_pair_or_its_demonstration(
    book: RuleBook, rule: PathRule
) -> None:
    assert rule.fires
    assert rule.spares
    assert rule.demonstration


@pytest.mark.parametrize(("book", "rule"), ROWS)
def test_it_fires_on_the_last_act_of_its_case(book: RuleBook, rule: PathRule) -> None:
    judged = PathEngine(book).score(rule.fires)

    assert rule.name in judged[-1].violations


@pytest.mark.parametrize(("book", "rule"), ROWS)
def test_it_spares_the_nearest_honest_path(book: RuleBook, rule: PathRule) -> None:
    judged = PathEngine(book).score(rule.spares)

    assert not any(rule.name in turn.violations for turn in judged[-1:])


@pytest.mark.parametrize(("book", "rule"), ROWS)
def test_its_demonstration_earns_the_credit_and_violates_nothing(
    book: RuleBook, rule: PathRule
) -> None:
    judged = PathEngine(book).score(rule.demonstration)

    assert not any(turn.violations for turn in judged)
    assert sum(rule.name in turn.fulfilments for turn in judged) == 1


@pytest.mark.parametrize(("book", "rule"), ROWS)
def test_doing_the_demonstration_again_is_not_paid_again(
    book: RuleBook, rule: PathRule
) -> None:
    judged = PathEngine(book).score(rule.demonstration * 4)

    assert sum(rule.name in turn.fulfilments for turn in judged) == 1
