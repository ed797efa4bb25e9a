from __future__ import annotations

from dataclasses import replace

import pytest

from rlvr_envs.records import ToolCategory
from rlvr_envs.rewards.books import BOOKS, book_named
from rlvr_envs.rewards.episode import Act, Turn
from rlvr_envs.rewards.lint import Design, TaskCase, lint
from rlvr_envs.rewards.path_rules import PathRule, RuleBook, State
from rlvr_envs.rewards.terminal_rules import UNTESTED_EDIT, terminal_book
from tests.rewards.builders import bash, submit, write


def count(state: State, _: Turn) -> State:
    return {"turns": state.get("turns", 0) + 1}


def says(word: str) -> PathRule:
    """A sound rule: saying a word is penalised, saying please is credited once."""
    return PathRule(
        name=word,
        violates=lambda _, act: spoken(act) == word,
        fulfils=lambda _, act: "please" if spoken(act) == "please" else "",
        demonstration=(bash("please"), submit()),
        fires=(bash(word),),
        spares=(bash("other"),),
    )


def spoken(act: Act) -> str:
    return str(act.call.arguments.get("command", ""))


def broken(rule: PathRule) -> set[Design]:
    book = RuleBook("one", (rule,), count)
    return {item.design for item in lint(book) if item.subject == rule.name}


@pytest.mark.parametrize("name", BOOKS)
def test_the_books_that_come_with_us_are_sound(name: str) -> None:
    assert lint(book_named(name, ToolCategory)) == ()


def test_a_sound_rule_breaks_nothing() -> None:
    assert broken(says("curse")) == set()


def test_penalising_the_absence_of_progress_is_an_omission() -> None:
    slow = replace(
        says("slow"),
        violates=lambda state, _: state.get("turns", 0) >= 2,
        fires=(bash("a"), bash("b"), bash("c")),
    )

    assert broken(slow) == {Design.COMMISSION}


def test_an_omission_that_lets_the_agent_give_up_is_one_still() -> None:
    slow = replace(
        says("slow"),
        violates=lambda state, act: (
            state.get("turns", 0) >= 2 and act.category is not ToolCategory.TERMINAL
        ),
        fires=(bash("a"), bash("b"), bash("c")),
    )

    assert broken(slow) == {Design.COMMISSION}


@pytest.mark.parametrize("case", ["fires", "spares"])
def test_a_rule_without_its_pair_cannot_be_trusted(case: str) -> None:
    assert broken(replace(says("x"), **{case: ()})) == {Design.COMMISSION}  # type: ignore[arg-type]


def test_a_rule_that_misses_its_own_case_is_told() -> None:
    assert broken(replace(says("x"), fires=(bash("y"),))) == {Design.COMMISSION}


def test_a_rule_that_fires_where_it_must_not_is_told() -> None:
    assert broken(replace(says("x"), spares=(bash("x"),))) == {Design.COMMISSION}


def test_a_penalty_without_a_credit_is_unpaired() -> None:
    assert broken(replace(says("x"), credit=0.0)) == {Design.PAIRED}


def test_a_credit_that_the_demonstration_never_earns_is_unpaired() -> None:
    assert broken(replace(says("x"), fulfils=lambda *_: "")) == {Design.PAIRED}


def test_a_rule_without_a_demonstration_is_out_of_reach() -> None:
    found = broken(replace(says("x"), demonstration=()))

    assert Design.REACHABLE in found


def test_a_demonstration_that_violates_another_rule_reaches_nothing() -> None:
    book = RuleBook("two", (says("curse"), says("please")), count)

    designs = {(item.subject, item.design) for item in lint(book)}

    assert ("curse", Design.REACHABLE) in designs


def test_a_credit_for_each_repeat_is_gameable() -> None:
    endless = replace(
        says("x"), fulfils=lambda state, _: f"turn {state.get('turns', 0)}"
    )

    assert broken(endless) == {Design.REACHABLE}


def test_a_credit_for_idling_is_gameable() -> None:
    idle = replace(says("x"), fulfils=lambda *_: "there")

    assert broken(idle) == {Design.REACHABLE}


def test_a_task_without_checks_has_no_outcome() -> None:
    (finding,) = lint(terminal_book(), [TaskCase("t", 0, ((submit(),),))])

    assert (finding.subject, finding.design) == ("t", Design.OUTCOME)


def test_a_task_whose_honest_scripts_all_violate_a_rule_names_it() -> None:
    case = TaskCase("t", 1, ((write("/a.py"), submit()),))

    (finding,) = lint(terminal_book(), [case])

    assert finding.subject == UNTESTED_EDIT.name
    assert finding.design is Design.REACHABLE
    assert "call 2" in finding.detail


def test_one_compliant_script_is_enough() -> None:
    hasty = (write("/a.py"), submit())
    careful = (write("/a.py"), bash("pytest"), submit())

    assert lint(terminal_book(), [TaskCase("t", 1, (hasty, careful))]) == ()


def test_a_finding_is_plain_data() -> None:
    (finding,) = lint(terminal_book(), [TaskCase("t", 0, ((submit(),),))])

    assert finding.to_json()["breaks"] == "outcome"
