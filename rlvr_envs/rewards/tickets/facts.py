"""What holds about one rollout: set differences between case, tool log and ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rlvr_envs.records import ToolCategory
from rlvr_envs.rewards.tickets.case import (
    CaseSpec,
    Disposition,
    MandatoryWrite,
    PolicyRule,
    Relation,
    RequiredRead,
    Threshold,
)
from rlvr_envs.rewards.tickets.claims import Claims
from rlvr_envs.rewards.tickets.inputs import (
    LedgerEntry,
    Rollout,
    TicketCase,
    check_case,
)
from rlvr_envs.rewards.tickets.pointers import Pointer, is_number, number, same


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a sub-score lacks something or a guardrail fired.

    Attributes:
        code: Fixed word, such as ``write_missing``.
        subject: What it is about: a tool and record, a rule, a reply point.
    """

    code: str
    subject: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"code": self.code, "subject": self.subject}


@dataclass(frozen=True, slots=True)
class Facts:
    """A rollout beside its case, and what follows from both.

    Attributes:
        met: Place in the ledger of what fulfils a mandatory write, by its place in
            the case.
        reads: Tools of reads that ran and succeeded, by index of the turn.
    """

    case: TicketCase
    rollout: Rollout
    claims: Claims
    met: Mapping[int, int]
    reads: Mapping[int, str]

    @property
    def spec(self) -> CaseSpec:
        """The case spec."""
        return self.case.spec

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Confirmed writes."""
        return self.rollout.final.ledger

    @property
    def ended(self) -> bool:
        """Whether the ticket was closed or escalated."""
        return self.rollout.final.disposition is not Disposition.OPEN

    @property
    def well_ended(self) -> bool:
        """Whether it ended as the case accepts."""
        return self.rollout.final.disposition in self.spec.dispositions

    @property
    def used(self) -> frozenset[str]:
        """Tools that were used: reads and ends by the tool log, writes by the ledger."""
        tools = self.rollout.registry.tools
        ends = {
            turn.call.name
            for turn in self.rollout.turns
            if turn.ok and turn.ran and not turn.void
            if turn.call.name in tools
            and tools[turn.call.name].category is ToolCategory.TERMINAL
        }
        written = {entry.tool for entry in self.ledger}
        return frozenset({*self.reads.values(), *ends, *written})

    def value(self, pointer: Pointer) -> Any:
        """Return what a pointer stands for in the snapshot."""
        return self.case.snapshot.value(pointer)

    def missing_writes(self) -> tuple[MandatoryWrite, ...]:
        """Return the mandatory writes that the ledger does not confirm."""
        writes = enumerate(self.spec.mandatory_writes)
        return tuple(write for place, write in writes if place not in self.met)

    def missing_reads(self) -> tuple[RequiredRead, ...]:
        """Return the required reads that were not made before the decisive write."""
        return tuple(read for read in self.spec.required_reads if not self._done(read))

    def _done(self, read: RequiredRead) -> bool:
        decisive = [self.ledger[place].turn for place in self.met.values()]
        known = [turn for turn in decisive if turn is not None]
        end = min(known, default=len(self.rollout.turns))
        return any(
            turn < end and tool == read.tool and self._names(turn, read)
            for turn, tool in self.reads.items()
        )

    def _names(self, turn: int, read: RequiredRead) -> bool:
        given = self.rollout.turns[turn].call.arguments
        return all(
            key in given and str(given[key]) == str(self.value(pointer))
            for key, pointer in read.arguments.items()
        )


def gather(case: TicketCase, rollout: Rollout, claims: Claims) -> Facts:
    """Set a rollout beside its case.

    Raises:
        ValueError: If the case does not fit its snapshot or the tool registry.
    """
    check_case(case, rollout.registry)
    return Facts(case, rollout, claims, _met(case, rollout), _reads(rollout))


def _reads(rollout: Rollout) -> Mapping[int, str]:
    tools = rollout.registry.tools
    return MappingProxyType(
        {
            index: turn.call.name
            for index, turn in enumerate(rollout.turns)
            if turn.ok and turn.ran and not turn.void
            if turn.call.name in tools and tools[turn.call.name].reads
        }
    )


def _met(case: TicketCase, rollout: Rollout) -> Mapping[int, int]:
    """Give each mandatory write an entry of its own, the most particular first."""
    writes = case.spec.mandatory_writes
    free = dict(enumerate(rollout.final.ledger))
    met: dict[int, int] = {}
    for place in sorted(range(len(writes)), key=lambda n: -len(writes[n].values)):
        fits = (n for n, entry in free.items() if _fulfils(entry, writes[place], case))
        chosen = next(fits, None)
        if chosen is not None:
            met[place] = chosen
            del free[chosen]
    return MappingProxyType(met)


def _fulfils(entry: LedgerEntry, write: MandatoryWrite, case: TicketCase) -> bool:
    value = case.snapshot.value
    return (
        entry.tool == write.tool
        and entry.target == str(value(write.target))
        and all(
            key in entry.values and same(entry.values[key], value(pointer))
            for key, pointer in write.values.items()
        )
    )


def label(entry: LedgerEntry) -> str:
    """Return how reasons name a ledger entry."""
    return f"{entry.tool or '(no tool)'} {entry.target}"


_RELATIONS: Mapping[Relation, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        Relation.EQUALS: same,
        Relation.ONE_OF: lambda value, bound: any(same(value, item) for item in bound),
        Relation.AT_MOST: lambda value, bound: _ordered(value, bound),
        Relation.AT_LEAST: lambda value, bound: _ordered(bound, value),
    }
)


def _ordered(low: object, high: object) -> bool:
    both = is_number(low) and is_number(high)
    return both and number(low) <= number(high)


def broken_rules(facts: Facts) -> tuple[Reason, ...]:
    """Return the policy rows that confirmed writes break, in order of the ledger.

    A write that leaves out a bounded field, or puts text or NaN there, breaks the row.
    """
    return tuple(
        Reason("policy_broken", f"{rule.name}: {label(entry)}")
        for entry in facts.ledger
        for rule in facts.spec.policy
        if rule.tool == entry.tool and not _holds(rule, entry, facts)
    )


def _holds(rule: PolicyRule, entry: LedgerEntry, facts: Facts) -> bool:
    if rule.field not in entry.values:
        return False
    return _RELATIONS[rule.relation](entry.values[rule.field], facts.value(rule.bound))


def unauthorised(facts: Facts) -> tuple[Reason, ...]:
    """Return confirmed writes by tools that the case does not allow, and collateral."""
    tools = facts.rollout.registry.tools
    allowed = {name for name in facts.spec.allowed_writes if tools[name].writes}
    strangers = [entry for entry in facts.ledger if entry.tool not in allowed]
    return (
        *(Reason("write_not_allowed", label(entry)) for entry in strangers),
        *(Reason("collateral", record) for record in facts.rollout.final.collateral),
    )


def duplicates(facts: Facts) -> tuple[Reason, ...]:
    """Return the records that a tool wrote more often than it may."""
    tools = facts.rollout.registry.tools
    asked = Counter(
        (write.tool, str(facts.value(write.target)))
        for write in facts.spec.mandatory_writes
    )
    made = Counter((entry.tool, entry.target) for entry in facts.ledger)
    return tuple(
        Reason("written_again", f"{tool} {target}")
        for (tool, target), times in made.items()
        if times > max(1, asked[tool, target])
        and not (tool in tools and tools[tool].repeatable)
    )


def confirmed_effects(facts: Facts) -> frozenset[str]:
    """Return the effects that really came about for the ticket's customer."""
    tools, customer = facts.rollout.registry.tools, facts.case.ticket.customer
    ours = [entry for entry in facts.ledger if entry.customer in ("", customer)]
    effects = {tools[entry.tool].effect for entry in ours if entry.tool in tools}
    if "replacement" in effects:  # it is sent again, as some say of the same thing
        effects.add("reshipment")
    if facts.rollout.final.disposition is Disposition.ESCALATED:
        effects.add("escalation")
    return frozenset(effects)


def exceeds(row: Threshold, entry: LedgerEntry, facts: Facts) -> bool:
    """Whether a write is one of those that a row speaks of.

    A field that is missing or is no finite number counts as above: leaving it out
    does not avoid the row.
    """
    if entry.tool != row.tool:
        return False
    return not _ordered(entry.values.get(row.field), facts.value(row.above))
