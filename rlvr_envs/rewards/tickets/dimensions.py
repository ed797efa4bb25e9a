"""The five weighted dimensions; each sub-score lies in [0, 1].

Nothing is earned by default: a ticket left open, with no read and no reply, has 0 in
all five.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from rlvr_envs.rewards.hygiene import TurnsAbove
from rlvr_envs.rewards.tickets.case import ReplyPoint, Wording
from rlvr_envs.rewards.tickets.claims import plain, tokens
from rlvr_envs.rewards.tickets.facts import Facts, Reason, broken_rules, unauthorised
from rlvr_envs.rewards.tickets.pointers import is_number, number

BREACH = 0.5
"""What one breach takes off policy compliance."""

SURPLUS_TURN = 0.1
"""What one turn above the case's limit takes off efficiency."""

CLEAN_REPLY = 0.2
"""Share of communication that a reply earns by being there and free of prohibited phrases."""

Graded = tuple[float, tuple[Reason, ...]]


@dataclass(frozen=True, slots=True)
class Dimension:
    """One row of the rubric.

    Attributes:
        percent: Weight in hundredths of the raw reward.
        grade: Returns the sub-score in [0, 1] and what is lacking.

    Source:
        Names and weights: project specification, E7. Rubrics: own rule,
        ARCHITECTURE.md#tickets.
    """

    name: str
    percent: int
    grade: Callable[[Facts], Graded]


def business_outcome(facts: Facts) -> Graded:
    """Share of goals that stand: each mandatory write, and then the ticket's end.

    The end counts only on top of all writes, so that closing a ticket is worth
    nothing by itself wherever something had to be done.
    """
    missing = facts.missing_writes()
    ended = facts.well_ended and not missing
    goals = len(facts.spec.mandatory_writes) + 1
    reasons = [
        Reason("write_missing", f"{write.tool} {facts.value(write.target)}")
        for write in missing
    ]
    if not facts.well_ended:
        reasons.append(
            Reason("not_ended_as_asked", str(facts.rollout.final.disposition))
        )
    return (len(facts.met) + ended) / goals, tuple(reasons)


def policy_compliance(facts: Facts) -> Graded:
    """Share of mandatory writes that stand, less 0.5 for each breach.

    Compliance is shown by the acts that policy governs: who leaves them out shows
    none. Where nothing must be written, ending the ticket is the act. Breaches are
    broken policy rows, writes that are not allowed, collateral, and an end that the
    case does not accept.
    """
    writes = len(facts.spec.mandatory_writes)
    shown = len(facts.met) / writes if writes else float(facts.well_ended)
    breaches = [*broken_rules(facts), *unauthorised(facts)]
    if facts.ended and not facts.well_ended:
        breaches.append(
            Reason("end_not_accepted", str(facts.rollout.final.disposition))
        )
    missing = [
        Reason("governed_write_missing", write.tool) for write in facts.missing_writes()
    ]
    return max(0.0, shown - BREACH * len(breaches)), (*breaches, *missing)


def evidence(facts: Facts) -> Graded:
    """Share of required reads that the tool log has, before the decisive write."""
    missing = facts.missing_reads()
    wanted = len(facts.spec.required_reads)
    reasons = tuple(Reason("read_missing", read.tool) for read in missing)
    return (wanted - len(missing)) / wanted, reasons


def efficiency(facts: Facts) -> Graded:
    """1 less 0.1 for each turn above the limit; 0 for a ticket that was not ended."""
    if not facts.ended:
        return 0.0, (Reason("left_open", facts.case.ticket.name),)
    surplus = TurnsAbove(facts.spec.turn_limit)(facts.rollout.turns)
    reasons = (Reason("surplus_turns", str(surplus)),) if surplus else ()
    return max(0.0, 1.0 - SURPLUS_TURN * surplus), reasons


def communication(facts: Facts) -> Graded:
    """0.2 for a clean reply, 0.8 times the share of required points that it makes.

    0 without a reply or with a prohibited phrase in it.
    """
    if not facts.rollout.reply.strip():
        return 0.0, (Reason("no_reply", facts.case.ticket.name),)
    bad = sorted(facts.claims.prohibited)
    if bad:
        return 0.0, tuple(Reason("prohibited_phrase", phrase) for phrase in bad)
    points = facts.spec.reply_points
    silent = [point for point in points if not _made(point, facts)]
    share = (len(points) - len(silent)) / len(points) if points else 1.0
    reasons = tuple(Reason("point_missing", point.name) for point in silent)
    return CLEAN_REPLY + (1.0 - CLEAN_REPLY) * share, reasons


def _made(point: ReplyPoint, facts: Facts) -> bool:
    if point.value is None:
        return point.fact in facts.claims.facts
    said = [tokens(text) for text in _worded(facts.value(point.value), point.wording)]
    return any(words and words <= facts.claims.values for words in said)


def _worded(value: object, wording: Wording) -> tuple[str, ...]:
    """Return the ways to say a value; a sum of money also in so many cents."""
    if wording is Wording.CENTS and is_number(value):
        cents = number(value)
        return plain(cents / Decimal(100)), f"{plain(cents)} cents"
    return (str(value),)


DIMENSIONS = (
    Dimension("business_outcome", 45, business_outcome),
    Dimension("policy_compliance", 20, policy_compliance),
    Dimension("evidence", 20, evidence),
    Dimension("efficiency", 10, efficiency),
    Dimension("communication", 5, communication),
)
"""The rubric; the weights sum to 100."""
