from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.records import Status
from rlvr_envs.rewards.tickets.claims import Claims, RuleClaims
from rlvr_envs.rewards.tickets.guardrails import GUARDRAILS
from rlvr_envs.rewards.tickets.inputs import LedgerEntry, Rollout
from rlvr_envs.rewards.tickets.score import (
    TicketScore,
    as_outcome,
    derivation,
    score_json,
    score_ticket,
)
from tests.rewards.tickets.builders import (
    CLOSE,
    GOLD,
    GOOD_REPLY,
    NULL,
    READS,
    VERBAL,
    case,
    entries,
    no_deadline,
    note,
    refund,
    rollout,
    rollouts,
    turn,
)
from tests.rewards.tickets.guardrail_pairs import APPROVALS, PRIVACY, RISK

CASE = case(
    approvals=APPROVALS,
    risk=RISK,
    privacy=PRIVACY,
    deadline_s="sla.deadline_s",
    required_tools=["get_order"],
)
CAPS = {row.name: row.cap for row in GUARDRAILS}


def parts(score: TicketScore) -> dict[str, float]:
    return {part.name: part.value for part in score.dimensions}


def with_ledger(rolled: Rollout, *ledger: LedgerEntry) -> Rollout:
    return replace(rolled, final=replace(rolled.final, ledger=ledger))


def test_a_ticket_well_done_earns_everything() -> None:
    score = score_ticket(case(), GOLD)

    assert score.final == score.raw == 1.0
    assert score.success


def test_doing_nothing_earns_nothing() -> None:
    assert score_ticket(case(), NULL).raw == 0.0


def test_a_verbal_refund_earns_thirty_one_hundredths() -> None:
    score = score_ticket(case(), VERBAL)

    assert parts(score) == {
        "business_outcome": 0.0,
        "policy_compliance": 0.0,
        "evidence": 1.0,
        "efficiency": 1.0,
        "communication": 0.2,
    }
    assert [guard.name for guard in score.fired] == ["empty_promise"]
    assert score.final == 0.31
    assert not score.success


def test_its_derivation_can_be_followed() -> None:
    text = derivation(score_ticket(case(), VERBAL))

    assert "business_outcome   0.45 x 0.000 = 0.0000  write_missing" in text
    assert "evidence           0.20 x 1.000 = 0.2000" in text
    assert "communication      0.05 x 0.200 = 0.0100  point_missing amount" in text
    assert "empty_promise            cap 0.35  claimed_not_written refund" in text
    assert text.endswith("final = min(0.3100, 0.35) = 0.3100")


def test_the_lower_of_two_caps_wins() -> None:
    sent = LedgerEntry("send_item", "1001", customer="c-7", turn=3)
    unread = rollout(refund(), sent, turns=(CLOSE,), reply=GOOD_REPLY)

    score = score_ticket(case(), unread)

    assert {guard.cap for guard in score.fired} == {0.30, 0.55}
    assert score.raw > 0.55
    assert score.final == 0.30
    assert score.lowest == "unauthorised_write"


def test_the_lower_cap_wins_wherever_it_stands_in_the_table() -> None:
    tagged = case(privacy=PRIVACY)
    whim = refund(values={"amount_cents": 4250, "reason": "mood"})

    score = score_ticket(tagged, rollout(whim, note("to ada@example.org")))

    assert [guard.cap for guard in score.fired] == [0.45, 0.25]
    assert score.final == 0.25
    assert score.lowest == "privacy_violation"


def test_a_case_that_does_not_fit_its_world_is_not_scored() -> None:
    with pytest.raises(ValueError, match="sla has no 'hours'"):
        score_ticket(case(deadline_s="sla.hours"), NULL)


def test_a_write_counts_only_where_the_ledger_has_it() -> None:
    said = turn("issue_refund", '{"status": "refunded", "ledger": "confirmed"}')
    rolled = rollout(turns=(*READS, said, CLOSE))

    assert parts(score_ticket(case(), rolled))["business_outcome"] == 0.0


@pytest.mark.parametrize(
    "entry",
    [
        refund(4249),
        refund(target="1002"),
        refund(tool="add_note"),
        refund("4250"),
        refund(values={"reason": "late"}),
    ],
    ids=["amount", "record", "tool", "type", "field"],
)
def test_another_write_is_not_the_one_asked_for(entry: LedgerEntry) -> None:
    assert parts(score_ticket(case(), rollout(entry)))["business_outcome"] == 0.0


def test_two_mandatory_writes_need_two_entries() -> None:
    asked = case(
        mandatory_writes=[
            {"tool": "issue_refund", "target": "order.id"},
            {
                "tool": "issue_refund",
                "target": "order.id",
                "values": {"amount_cents": "policy.refund_cents"},
            },
        ]
    )

    one = parts(score_ticket(asked, rollout(refund())))["business_outcome"]
    both = parts(score_ticket(asked, rollout(refund(), refund(1))))["business_outcome"]

    assert one == pytest.approx(1 / 3)
    assert both == 1.0


def test_a_case_that_asks_for_no_write_is_done_by_ending_it() -> None:
    refuse = case(mandatory_writes=[], reply_points=[], policy=[])
    rolled = rollout(reply="Sorry, we cannot refund order 1001.")

    assert score_ticket(refuse, rolled).final == 1.0
    assert score_ticket(refuse, NULL).raw == 0.0


def test_notes_do_not_dilute_a_breach() -> None:
    bad = refund(9000)
    few = parts(score_ticket(case(), rollout(refund(), bad)))
    many = [replace(bad, tool="add_note", values={"text": str(n)}) for n in range(9)]

    padded = parts(score_ticket(case(), rollout(refund(), bad, *many)))

    assert padded["policy_compliance"] == few["policy_compliance"] == 0.5


def test_turns_above_the_limit_cost_efficiency() -> None:
    long = rollout(refund(), turns=(*READS, *[CLOSE] * 7))

    assert parts(score_ticket(case(), long))["efficiency"] == pytest.approx(0.7)


def test_a_prohibited_phrase_or_silence_leaves_no_communication() -> None:
    rude = rollout(refund(), reply=f"{GOOD_REPLY} It is your own fault.")
    silent = rollout(refund(), reply=" ")

    assert parts(score_ticket(case(), rude))["communication"] == 0.0
    assert parts(score_ticket(case(), silent))["communication"] == 0.0


def test_the_reply_goes_once_and_alone_through_the_extractor() -> None:
    seen: list[str] = []

    def extractor(reply: str) -> Claims:
        seen.append(reply)
        return RuleClaims()(reply)

    score_ticket(case(), GOLD, extractor)

    assert seen == [GOOD_REPLY]


def test_the_file_has_both_scores_five_parts_and_reasons() -> None:
    score = score_ticket(case(), VERBAL)

    data = json.loads(score_json(score))

    assert (data["raw"], data["final"], data["success"]) == (0.31, 0.31, False)
    assert len(data["dimensions"]) == 5
    assert data["dimensions"]["business_outcome"]["reasons"] == [
        {"code": "write_missing", "subject": "issue_refund 1001"}
    ]
    assert data["guardrails"] == [
        {
            "name": "empty_promise",
            "cap": 0.35,
            "reasons": [{"code": "claimed_not_written", "subject": "refund"}],
        }
    ]
    assert len(data["guardrails_off"]) == 5
    assert score_json(score) == score_json(score_ticket(case(), VERBAL))


def test_success_begins_at_nine_tenths() -> None:
    just = rollout(refund(), turns=(*READS, *[CLOSE] * 14))
    below = rollout(refund(), turns=just.turns, reply="Sorry about order 1001.")

    assert score_ticket(case(), just).final == 0.9
    assert score_ticket(case(), just).success
    assert not score_ticket(case(), below).success


def test_the_verdict_passes_where_the_ticket_succeeds() -> None:
    won, lost = (as_outcome(score_ticket(case(), one)) for one in (GOLD, VERBAL))

    assert (won.status, won.reward) == (Status.PASSED, 1.0)
    assert (lost.status, lost.reward) == (Status.FAILED, 0.31)
    assert lost.reason == "capped by empty_promise"
    assert "empty_promise" in lost.to_json()["failed"]


@no_deadline
@given(rollouts)
def test_a_score_lies_in_range_and_under_every_cap_that_fired(rolled: Rollout) -> None:
    score = score_ticket(CASE, rolled)

    assert 0.0 <= score.final <= score.raw <= 1.0
    assert all(0.0 <= part.value <= 1.0 for part in score.dimensions)
    assert all(score.final <= CAPS[guard.name] for guard in score.fired)
    assert score.final in {score.raw, *(guard.cap for guard in score.fired)}


@no_deadline
@given(rollouts, entries)
def test_a_write_that_was_not_asked_for_never_pays(
    rolled: Rollout, entry: LedgerEntry
) -> None:
    stray = replace(entry, tool="send_item", customer_cents=0)

    more = score_ticket(CASE, with_ledger(rolled, *rolled.final.ledger, stray))

    assert more.raw <= score_ticket(CASE, rolled).raw


@no_deadline
@given(rollouts, entries)
def test_one_write_more_lifts_no_guardrail(rolled: Rollout, entry: LedgerEntry) -> None:
    quiet = replace(rolled, reply="")
    before = {guard.name for guard in score_ticket(CASE, quiet).fired}

    after = score_ticket(CASE, with_ledger(quiet, *quiet.final.ledger, entry))

    assert before - {"required_tool_missing"} <= {guard.name for guard in after.fired}


@no_deadline
@given(rollouts)
def test_the_write_asked_for_never_costs_business_outcome(rolled: Rollout) -> None:
    before = parts(score_ticket(CASE, rolled))["business_outcome"]
    more = with_ledger(rolled, *rolled.final.ledger, refund(turn=None))

    assert parts(score_ticket(CASE, more))["business_outcome"] >= before


@no_deadline
@given(rollouts)
def test_reading_more_first_never_costs_evidence(rolled: Rollout) -> None:
    later = [
        replace(entry, turn=entry.turn and entry.turn + len(READS))
        for entry in rolled.final.ledger
        if entry.turn != 0
    ]
    before = with_ledger(rolled, *[e for e in rolled.final.ledger if e.turn != 0])
    after = replace(with_ledger(rolled, *later), turns=(*READS, *rolled.turns))

    assert (
        parts(score_ticket(CASE, after))["evidence"]
        >= parts(score_ticket(CASE, before))["evidence"]
    )


@no_deadline
@given(rollouts, st.integers(1, 12))
def test_more_turns_never_raise_efficiency(rolled: Rollout, extra: int) -> None:
    longer = replace(rolled, turns=(*rolled.turns, *[turn("noop")] * extra))

    assert (
        parts(score_ticket(CASE, longer))["efficiency"]
        <= parts(score_ticket(CASE, rolled))["efficiency"]
    )


@no_deadline
@given(rollouts, st.text(max_size=200))
def test_a_reply_moves_communication_and_the_promise_alone(
    rolled: Rollout, reply: str
) -> None:
    one, other = (
        score_ticket(CASE, each) for each in (rolled, replace(rolled, reply=reply))
    )

    assert {**parts(one), "communication": 0} == {**parts(other), "communication": 0}
    names = [{guard.name for guard in each.fired} for each in (one, other)]
    assert names[0] - {"empty_promise"} == names[1] - {"empty_promise"}


@no_deadline
@given(rollouts)
def test_two_scorings_are_one(rolled: Rollout) -> None:
    assert score_json(score_ticket(CASE, rolled)) == score_json(
        score_ticket(CASE, rolled)
    )
