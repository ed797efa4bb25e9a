from __future__ import annotations

import pytest

from rlvr_envs.state import Examination, ExaminedTest
from rlvr_envs.verifiers.counting import count
from tests.verifiers.builders import passed


def holds(found: Examination, *expected: str) -> bool:
    return all(check.passed for check in count(found, expected, name="tests"))


def test_all_expected_tests_ran_and_passed() -> None:
    assert holds(passed("a", "b"))
    assert holds(passed("a", "b"), "b")


@pytest.mark.parametrize("outcome", ["failed", "skipped", "xfailed", "error", ""])
def test_anything_but_a_pass_is_none(outcome: str) -> None:
    tests = (ExaminedTest("a", "passed"), ExaminedTest("b", outcome))

    assert not holds(Examination(("a", "b"), tests))


@pytest.mark.parametrize(
    "found",
    [
        Examination(),
        Examination(("a", "b"), (ExaminedTest("a", "passed"),)),
        Examination(("a",), (ExaminedTest("a", "passed"), ExaminedTest("x", "passed"))),
        Examination(("a",), (ExaminedTest("a", "passed"),) * 2),
        Examination(("a",), (ExaminedTest("a", "passed"),), trouble="it hung"),
    ],
    ids=["none", "too few", "too many", "twice", "trouble"],
)
def test_the_number_must_be_right(found: Examination) -> None:
    assert not holds(found)


def test_a_pinned_id_that_was_never_collected_fails() -> None:
    assert not holds(passed("a"), "a", "b")
