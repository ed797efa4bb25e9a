from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.rewards.tickets.case import Disposition
from rlvr_envs.rewards.tickets.inputs import Rollout
from rlvr_envs.rewards.tickets.monitors import (
    Scored,
    TicketReport,
    group_variances,
    hit_rates,
    low_clusters,
    report,
    ticket_breaker,
)
from rlvr_envs.rewards.tickets.score import score_ticket
from tests.rewards.tickets.builders import (
    GOLD,
    NULL,
    VERBAL,
    case,
    no_deadline,
    refund,
    rollout,
)
from tests.rewards.tickets.guardrail_pairs import PAIRS

ESCALATED = rollout(refund(), left=Disposition.ESCALATED)
HARMFUL = PAIRS["harm_to_customer"].fires


def scored(*rolled: Rollout, size: int = 4) -> list[Scored]:
    return [
        Scored(f"e{n}", f"g{n // size}", score_ticket(case(), one))
        for n, one in enumerate(rolled)
    ]


def test_a_healthy_window_raises_no_alarm() -> None:
    seen = report(scored(*[GOLD, GOLD, GOLD, VERBAL] * 3))

    assert seen.hit_rate == 0.25
    assert seen.success_rate == 0.75
    assert seen.alarms == ()


@pytest.mark.parametrize(
    ("hits", "alarmed"), [(0, True), (1, False), (3, False), (4, True)]
)
def test_the_hit_rate_is_kept_between_a_tenth_and_three_tenths(
    hits: int, alarmed: bool
) -> None:
    window = [*[VERBAL] * hits, *[GOLD] * (9 - hits), NULL]
    clean = replace(NULL, turns=GOLD.turns)

    seen = report(scored(*window[:-1], clean))

    assert seen.hit_rate == hits / 10
    assert any("guardrails fire" in alarm for alarm in seen.alarms) is alarmed


@pytest.mark.parametrize(("count", "alarmed"), [(0, False), (1, True), (4, True)])
def test_a_tenth_of_escalations_alarms(count: int, alarmed: bool) -> None:
    seen = report(scored(*[ESCALATED] * count, *[GOLD] * (10 - count)))

    assert seen.escalation_rate == count / 10
    assert any("escalated" in alarm for alarm in seen.alarms) is alarmed


def test_variance_is_within_groups() -> None:
    between = scored(*[GOLD] * 4, *[VERBAL] * 4)
    within = scored(*[GOLD, GOLD, VERBAL, VERBAL] * 2)

    assert set(group_variances(between).values()) == {0.0}
    assert report(between).flat_groups == 1.0
    assert report(within).group_variance == pytest.approx((0.69 / 2) ** 2)
    assert any("variance" in alarm for alarm in report(between).alarms)
    assert not any("variance" in alarm for alarm in report(within).alarms)


def test_a_group_of_one_has_no_variance_to_speak_of() -> None:
    assert group_variances(scored(GOLD)) == {}


def test_a_guardrail_that_is_off_has_no_rate() -> None:
    rates = hit_rates(item.score for item in scored(GOLD, VERBAL, HARMFUL, GOLD))

    assert rates["empty_promise"] == 0.25
    assert rates["harm_to_customer"] == 0.25
    assert rates["policy_error"] == 0.0
    assert "approval_bypassed" not in rates


def test_a_rate_is_over_the_tickets_on_which_the_guardrail_was_on() -> None:
    pair = PAIRS["approval_bypassed"]
    on = Scored("x", "g", score_ticket(pair.case, pair.fires))

    rates = hit_rates(item.score for item in [*scored(GOLD, GOLD), on])

    assert rates["approval_bypassed"] == 1.0


def test_low_scores_are_clustered_by_what_fired() -> None:
    clusters = low_clusters(scored(VERBAL, GOLD, VERBAL, HARMFUL, VERBAL))

    assert [(one.guardrails, one.episodes) for one in clusters] == [
        (("empty_promise",), ("e0", "e2", "e4")),
        (("harm_to_customer",), ("e3",)),
    ]
    assert clusters[0].mean_final == pytest.approx(0.31)


def test_a_low_score_without_a_guardrail_has_a_cluster_of_its_own() -> None:
    quiet = replace(NULL, turns=GOLD.turns)

    (cluster,) = low_clusters(scored(quiet))

    assert cluster.guardrails == ()


def test_nothing_scored_is_refused() -> None:
    with pytest.raises(ValueError, match="no scored tickets"):
        report([])


def collapsed() -> TicketReport:
    return report(scored(*[VERBAL] * 8))


def test_windows_of_collapse_trip_the_breaker() -> None:
    breaker = ticket_breaker(patience=2)

    once = breaker.after(collapsed().numbers())
    twice = once.after(collapsed().numbers())

    assert not once.tripped
    assert twice.tripped
    assert "hit_rate is 1" in twice.reason
    assert "group_variance is 0" in twice.reason


def test_a_healthy_window_between_forgives() -> None:
    healthy = report(scored(*[GOLD, GOLD, GOLD, VERBAL] * 3)).numbers()
    breaker = ticket_breaker(patience=2)

    for numbers in (collapsed().numbers(), healthy, collapsed().numbers()):
        breaker = breaker.after(numbers)

    assert not breaker.tripped


def test_a_report_is_plain_data() -> None:
    data = report(scored(GOLD, VERBAL)).to_json()

    assert data["hit_rates"]["empty_promise"] == 0.5
    assert data["clusters"][0]["episodes"] == ("e1",)


@no_deadline
@given(st.lists(st.sampled_from([GOLD, NULL, VERBAL, HARMFUL, ESCALATED]), min_size=1))
def test_every_share_lies_in_range(rolled: list[Rollout]) -> None:
    seen = report(scored(*rolled))

    shares = (seen.hit_rate, seen.success_rate, seen.escalation_rate, seen.flat_groups)
    assert all(0.0 <= share <= 1.0 for share in (*shares, *seen.hit_rates.values()))
    assert sum(len(one.episodes) for one in seen.clusters) <= seen.tickets
    assert 0.0 <= seen.group_variance <= 0.25
