"""The outcome of the refund task: three invariants, a price on turns, one partial win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlvr_envs.records import Check, Evidence, Outcome, Status
from rlvr_envs.rewards.episode import Turn
from rlvr_envs.rewards.hygiene import REFUND, bill, charged

TURNS_AT_MOST = 18
"""Turns within which the task must be done."""

UNANNOUNCED = 0.25
"""What a right ledger without collateral earns where the webhook was never sent."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One call that the webhook's sink recorded.

    Attributes:
        status: HTTP status that the sink answered.
        idempotency_key: Empty if the call carried none.
    """

    status: int
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True)
class RefundFacts:
    """What the harness found after the freeze.

    Attributes:
        order_matches: The order's row has the status and the refunded cents asked for.
        collateral: Other orders that the agent changed.
        deliveries: Calls of the webhook, whatever they were answered.
        tampering: Evidence of a changed harness; empty if there is none.
    """

    order_matches: bool
    collateral: tuple[str, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    tampering: tuple[Evidence, ...] = ()

    @property
    def answered(self) -> tuple[Delivery, ...]:
        """Deliveries that were answered 200."""
        return tuple(sent for sent in self.deliveries if sent.status == 200)


def refund_outcome(facts: RefundFacts, turns: Sequence[Turn]) -> Outcome:
    """Judge a refund.

    Returns:
        1.0 less 0.008 for each turn above 6, at most 0.08, if all three invariants
        hold; 0.25 if only the webhook is missing; 0.0 for collateral, a second
        delivery that was answered 200, more than 18 turns, and anything else;
        0.0 and tampered for a changed harness.

    Source:
        Project specification, D6.
    """
    checks = _checks(facts)
    if facts.tampering:
        return Outcome(Status.TAMPERED, 0.0, checks, facts.tampering, facts.collateral)
    if len(turns) > TURNS_AT_MOST:
        return _lost(facts, 0.0, f"{len(turns)} turns; {TURNS_AT_MOST} at most")
    if all(check.passed for check in checks):
        return charged(Outcome(Status.PASSED, 1.0, checks), bill(turns, REFUND))
    partial = facts.order_matches and not facts.collateral and not facts.answered
    failed = ", ".join(check.name for check in checks if not check.passed)
    return _lost(facts, UNANNOUNCED if partial else 0.0, f"failed: {failed}")


def _lost(facts: RefundFacts, reward: float, reason: str) -> Outcome:
    return Outcome(
        Status.FAILED,
        reward,
        _checks(facts),
        collateral=facts.collateral,
        reason=reason,
    )


def _checks(facts: RefundFacts) -> tuple[Check, ...]:
    once = len(facts.answered) == 1 and bool(facts.answered[0].idempotency_key)
    answered = f"{len(facts.answered)} of {len(facts.deliveries)} answered 200"
    return (
        Check("order_refunded", facts.order_matches),
        Check("no_other_order", not facts.collateral, ", ".join(facts.collateral)),
        Check("webhook_once", once, answered),
    )
