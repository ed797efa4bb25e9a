from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.rewards.tickets.audit import COLUMNS, agreement, audit_csv, sample
from rlvr_envs.rewards.tickets.monitors import Scored
from rlvr_envs.rewards.tickets.score import score_ticket
from tests.rewards.tickets.builders import GOLD, VERBAL, case, no_deadline

WON, LOST = (score_ticket(case(), one) for one in (GOLD, VERBAL))
MANY = [Scored(f"e{n}", "g", WON) for n in range(250)]


def filled(text: str, *answers: tuple[str, str]) -> str:
    rows = list(csv.DictReader(io.StringIO(text)))
    out = io.StringIO()
    sheet = csv.DictWriter(out, COLUMNS)
    sheet.writeheader()
    for row, (success, guardrails) in zip(rows, answers, strict=True):
        sheet.writerow(
            {**row, "human_success": success, "human_guardrails": guardrails}
        )
    return out.getvalue()


PAIR = audit_csv(
    [Scored("e1", "g", WON, reply="Done."), Scored("e2", "g", LOST, reply="Hm.")]
)


def test_a_hundredth_is_sampled_rounded_up() -> None:
    assert len(sample(MANY, seed=1)) == 3
    assert len(sample(MANY[:1], seed=1)) == 1
    assert sample([], seed=1) == ()


def test_the_sample_depends_on_the_seed_and_not_on_the_order() -> None:
    one = {item.episode for item in sample(MANY, seed=1)}

    assert {item.episode for item in sample(MANY[::-1], seed=1)} == one
    assert {item.episode for item in sample(MANY, seed=2)} != one


@no_deadline
@given(st.integers(0, 9), st.floats(0.001, 1.0))
def test_a_sample_keeps_order_and_size(seed: int, share: float) -> None:
    chosen = sample(MANY, seed=seed, share=share)

    places = [MANY.index(item) for item in chosen]
    assert places == sorted(places)
    assert share * len(MANY) <= len(chosen) < share * len(MANY) + 1


@pytest.mark.parametrize("share", [0.0, 1.1])
def test_a_share_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        sample(MANY, seed=1, share=share)


def test_the_sheet_leaves_the_human_columns_empty() -> None:
    first, second = csv.DictReader(io.StringIO(PAIR))

    assert (first["success"], first["guardrails"], first["reply"]) == (
        "yes",
        "none",
        "Done.",
    )
    assert (second["final"], second["guardrails"]) == ("0.3100", "empty_promise")
    assert not any(row[name] for row in (first, second) for name in COLUMNS[-3:])


def test_a_reply_is_never_a_formula() -> None:
    (row,) = csv.DictReader(
        io.StringIO(audit_csv([Scored("e", "g", WON, reply='=CMD("x")')]))
    )

    assert row["reply"].startswith("'=")


def test_agreement_is_counted_over_what_people_filled() -> None:
    done = agreement(filled(PAIR, ("yes", "none"), ("NO", "missing_evidence")))

    assert (done.sampled, done.filled) == (2, 2)
    assert done.success == 1.0
    assert done.guardrails == 0.5
    assert done.disagreeing == ("e2",)


def test_rows_left_blank_are_in_no_share() -> None:
    half = agreement(filled(PAIR, ("no", ""), ("", "")))

    assert (half.sampled, half.filled) == (2, 1)
    assert (half.success, half.guardrails) == (0.0, 0.0)
    assert half.disagreeing == ("e1",)


def test_an_untouched_sheet_agrees_on_nothing() -> None:
    assert agreement(PAIR).filled == 0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (("maybe", ""), r"row 2\.human_success: is yes or no, not 'maybe'"),
        (("yes", "rudeness"), r"row 2\.human_guardrails: does not know 'rudeness'"),
    ],
)
def test_an_answer_that_is_not_known_is_named(
    answer: tuple[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        agreement(filled(PAIR, answer, ("", "")))


def test_a_sheet_without_its_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the columns"):
        agreement("episode,final\ne1,1.0\n")
