"""The score of one ticket: five sub-scores, a raw reward, and the caps that fired."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from rlvr_envs.records import Check, Outcome, Status
from rlvr_envs.rewards.tickets.case import Disposition
from rlvr_envs.rewards.tickets.claims import Claims, Extractor, RuleClaims
from rlvr_envs.rewards.tickets.dimensions import DIMENSIONS
from rlvr_envs.rewards.tickets.facts import Facts, Reason, gather
from rlvr_envs.rewards.tickets.guardrails import GUARDRAILS
from rlvr_envs.rewards.tickets.inputs import Rollout, TicketCase

SUCCESS = 0.9
"""Final reward from which a ticket counts as solved."""

VERSION = 1
"""Of the layout of ``score.json``."""


@dataclass(frozen=True, slots=True)
class SubScore:
    """One dimension's grade.

    Attributes:
        percent: Weight in hundredths.
        value: In [0, 1].
        reasons: What is lacking.
    """

    name: str
    percent: int
    value: float
    reasons: tuple[Reason, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        reasons = [reason.to_json() for reason in self.reasons]
        weight = self.percent / 100
        return {"score": self.value, "weight": weight, "reasons": reasons}


@dataclass(frozen=True, slots=True)
class Fired:
    """A guardrail that fired, and why."""

    name: str
    cap: float
    reasons: tuple[Reason, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        reasons = [reason.to_json() for reason in self.reasons]
        return {"name": self.name, "cap": self.cap, "reasons": reasons}


@dataclass(frozen=True, slots=True)
class TicketScore:
    """What one rollout of a ticket earned.

    Attributes:
        dimensions: In the order of the rubric.
        fired: Guardrails that fired, in the order of the table.
        off: Guardrails that this case has no signal for.
    """

    ticket: str
    disposition: Disposition
    dimensions: tuple[SubScore, ...]
    fired: tuple[Fired, ...]
    off: tuple[str, ...]
    claims: Claims

    @property
    def raw(self) -> float:
        """The weighted sum of the sub-scores, in [0, 1]."""
        parts = math.fsum(part.percent * part.value for part in self.dimensions)
        return min(1.0, parts / 100)

    @property
    def final(self) -> float:
        """The raw reward under the lowest cap that fired."""
        return min([self.raw, *(guard.cap for guard in self.fired)])

    @property
    def success(self) -> bool:
        """Whether the ticket counts as solved."""
        return self.final >= SUCCESS

    @property
    def lowest(self) -> str:
        """Name of the fired guardrail with the lowest cap; empty if none fired."""
        return min(self.fired, key=lambda guard: guard.cap).name if self.fired else ""

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``score.json``; each key has one type."""
        return {
            "version": VERSION,
            "ticket": self.ticket,
            "disposition": str(self.disposition),
            "raw": self.raw,
            "final": self.final,
            "success": self.success,
            "dimensions": {part.name: part.to_json() for part in self.dimensions},
            "guardrails": [guard.to_json() for guard in self.fired],
            "guardrails_off": list(self.off),
            "claims": self.claims.to_json(),
        }


def score_ticket(
    case: TicketCase, rollout: Rollout, extractor: Extractor | None = None
) -> TicketScore:
    """Score one rollout of a ticket.

    Args:
        case: Written once.
        rollout: What happened; its ledger decides which writes there were.
        extractor: Called once, with the reply alone; the offline rules if left out.

    Raises:
        ValueError: If the case does not fit its snapshot or the tool registry.
        VerifierError: If a plugged-in extractor is broken.

    Source:
        Project specification, E7.
    """
    claims = (extractor or RuleClaims())(rollout.reply)
    facts = gather(case, rollout, claims)
    return TicketScore(
        ticket=case.ticket.name,
        disposition=rollout.final.disposition,
        dimensions=tuple(
            SubScore(row.name, row.percent, *row.grade(facts)) for row in DIMENSIONS
        ),
        fired=_fired(facts),
        off=tuple(row.name for row in GUARDRAILS if not row.on(case.spec)),
        claims=claims,
    )


def _fired(facts: Facts) -> tuple[Fired, ...]:
    judged = (
        Fired(row.name, row.cap, row.fires(facts))
        for row in GUARDRAILS
        if row.on(facts.spec)
    )
    return tuple(guard for guard in judged if guard.reasons)


def score_json(score: TicketScore) -> str:
    """Return the text of ``score.json``: equal scores give equal bytes."""
    return json.dumps(score.to_json(), indent=2, sort_keys=True) + "\n"


def as_outcome(score: TicketScore) -> Outcome:
    """Return the verdict: the final reward, passed where the ticket counts as solved."""
    parts = (
        Check(part.name, not part.reasons, _said(part.reasons))
        for part in score.dimensions
    )
    guards = (
        Check(guard.name, passed=False, reason=_said(guard.reasons))
        for guard in score.fired
    )
    return Outcome(
        status=Status.PASSED if score.success else Status.FAILED,
        reward=score.final,
        checks=(*parts, *guards),
        reason=f"capped by {score.lowest}" if score.fired else "",
    )


def derivation(score: TicketScore) -> str:
    """Return the score worked out line by line, for a person to follow."""
    lines = [f"ticket {score.ticket}, left {score.disposition}"]
    for part in score.dimensions:
        got = part.percent * part.value / 100
        line = (
            f"  {part.name:<18} {part.percent / 100:.2f} x {part.value:.3f} = {got:.4f}"
        )
        lines.append(f"{line}  {_said(part.reasons)}".rstrip())
    lines.append(f"  raw                               {score.raw:.4f}")
    lines += [
        f"  {guard.name:<24} cap {guard.cap:.2f}  {_said(guard.reasons)}"
        for guard in score.fired
    ]
    caps = [f"{guard.cap:.2f}" for guard in score.fired]
    lines.append(
        f"final = min({', '.join([f'{score.raw:.4f}', *caps])}) = {score.final:.4f}"
    )
    return "\n".join(lines)


def _said(reasons: tuple[Reason, ...]) -> str:
    return "; ".join(f"{reason.code} {reason.subject}" for reason in reasons)
