"""What must be watched over many scored tickets, and when training must stop."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, pvariance
from types import MappingProxyType
from typing import Any

from rlvr_envs.rewards.breaker import Breaker, Limit
from rlvr_envs.rewards.tickets.case import Disposition
from rlvr_envs.rewards.tickets.guardrails import GUARDRAILS
from rlvr_envs.rewards.tickets.score import TicketScore

HIT_RATE = (0.10, 0.30)
"""Share of tickets on which some guardrail fires: below, they guard nothing; above,
the caps are most of the reward."""

ESCALATION_ALARM = 0.10
"""Share of escalated tickets from which an alarm is raised."""

LOW_SCORE = 0.5
"""Final reward below which a ticket is clustered."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One scored rollout among many.

    Attributes:
        episode: Its name, unique.
        group: Shared by the rollouts of one group.
        reply: For the people who audit; no monitor reads it.
    """

    episode: str
    group: str
    score: TicketScore
    reply: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Low scores that the same guardrails fired on.

    Attributes:
        guardrails: Names, in the order of the table; empty for a low score that no
            guardrail explains.
        episodes: In the order given.
        mean_final: Of their final rewards.
    """

    guardrails: tuple[str, ...]
    episodes: tuple[str, ...]
    mean_final: float


@dataclass(frozen=True, slots=True)
class TicketReport:
    """The monitors of one window of tickets; shares lie in [0, 1].

    Attributes:
        hit_rate: Share on which at least one guardrail fired.
        hit_rates: Of each guardrail, over the tickets on which it was on.
        group_variance: Mean of the groups' population variances of final rewards.
        flat_groups: Share of groups of two or more without variance.
        alarms: One sentence each; empty if all is well.
    """

    tickets: int
    mean_final: float
    success_rate: float
    hit_rate: float
    hit_rates: Mapping[str, float]
    group_variance: float
    flat_groups: float
    escalation_rate: float
    clusters: tuple[Cluster, ...]
    alarms: tuple[str, ...] = field(default=())

    def numbers(self) -> dict[str, float]:
        """Return what the breaker watches, by name."""
        names = ("mean_final", "hit_rate", "group_variance", "escalation_rate")
        return {name: getattr(self, name) for name in names}

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


LIMITS: Mapping[str, Limit] = MappingProxyType(
    {
        "mean_final": Limit(low=0.05),
        "hit_rate": Limit(high=0.60),
        "group_variance": Limit(low=1e-6),
        "escalation_rate": Limit(high=0.30),
    }
)
"""Beyond which a window is a collapse and not a matter of tuning; set your own run's."""


def ticket_breaker(*, patience: int = 3) -> Breaker:
    """Return a breaker that trips after ``patience`` collapsed windows in a row."""
    return Breaker(LIMITS, patience=patience)


def report(scored: Sequence[Scored]) -> TicketReport:
    """Describe a window of tickets; void episodes have no score and are not among them.

    Raises:
        ValueError: If there is nothing to describe.

    Source:
        Project specification, E7.
    """
    if not scored:
        raise ValueError("There are no scored tickets; void episodes have no score.")
    scores = [item.score for item in scored]
    variances = group_variances(scored)
    hit_rate = fmean(bool(score.fired) for score in scores)
    escalated = fmean(score.disposition is Disposition.ESCALATED for score in scores)
    return TicketReport(
        tickets=len(scores),
        mean_final=fmean(score.final for score in scores),
        success_rate=fmean(score.success for score in scores),
        hit_rate=hit_rate,
        hit_rates=hit_rates(scores),
        group_variance=fmean(variances.values()) if variances else 0.0,
        flat_groups=fmean(not value for value in variances.values())
        if variances
        else 0.0,
        escalation_rate=escalated,
        clusters=low_clusters(scored),
        alarms=_alarms(hit_rate, escalated, variances),
    )


def hit_rates(scores: Iterable[TicketScore]) -> Mapping[str, float]:
    """Return how often each guardrail fired, over the tickets on which it was on.

    A guardrail that was on nowhere is left out.
    """
    on: Counter[str] = Counter()
    hit: Counter[str] = Counter()
    for score in scores:
        on.update(row.name for row in GUARDRAILS if row.name not in score.off)
        hit.update(guard.name for guard in score.fired)
    return {name: hit[name] / count for name, count in on.items()}


def group_variances(scored: Iterable[Scored]) -> Mapping[str, float]:
    """Return the population variance of final rewards by group of two or more."""
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for item in scored:
        groups[item.group].append(item.score.final)
    return {name: pvariance(all_) for name, all_ in groups.items() if len(all_) > 1}


def low_clusters(scored: Iterable[Scored]) -> tuple[Cluster, ...]:
    """Return the tickets below `LOW_SCORE` by what fired on them, the largest first."""
    found: defaultdict[tuple[str, ...], list[Scored]] = defaultdict(list)
    for item in scored:
        if item.score.final < LOW_SCORE:
            found[tuple(guard.name for guard in item.score.fired)].append(item)
    clusters = [
        Cluster(
            names,
            tuple(item.episode for item in items),
            fmean(item.score.final for item in items),
        )
        for names, items in found.items()
    ]
    return tuple(sorted(clusters, key=lambda one: (-len(one.episodes), one.guardrails)))


def _alarms(
    hit_rate: float, escalated: float, variances: Mapping[str, float]
) -> tuple[str, ...]:
    low, high = HIT_RATE
    flat = bool(variances) and not any(variances.values())
    rows = (
        (hit_rate < low, f"guardrails fire on {hit_rate:.0%}, below {low:.0%}"),
        (hit_rate > high, f"guardrails fire on {hit_rate:.0%}, above {high:.0%}"),
        (
            escalated >= ESCALATION_ALARM,
            f"{escalated:.0%} of tickets are escalated; a mandatory write closes that",
        ),
        (flat, "no group has variance: nothing is learnt from these rewards"),
    )
    return tuple(message for raised, message in rows if raised)
