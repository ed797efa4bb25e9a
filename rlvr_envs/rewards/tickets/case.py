"""The case spec: what a ticket asks for, in tool names and pointers, never in answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rlvr_envs.rewards.tickets.pointers import Pointer


class Disposition(StrEnum):
    """How a ticket was left."""

    OPEN = "open"
    CLOSED = "closed"
    ESCALATED = "escalated"


class Relation(StrEnum):
    """How a written value must stand to what a pointer gives."""

    AT_MOST = "at_most"
    AT_LEAST = "at_least"
    EQUALS = "equals"
    ONE_OF = "one_of"


class Kind(StrEnum):
    """What a pointer must lead to."""

    PLAIN = "plain value"
    NUMBER = "number"
    LIST = "list"


_BOUND = {Relation.ONE_OF: Kind.LIST, Relation.EQUALS: Kind.PLAIN}


class Wording(StrEnum):
    """How a value is said in a reply."""

    PLAIN = "plain"
    CENTS = "cents"


class Signal(StrEnum):
    """Structured signals that a case may lack; five guardrails wait for one each."""

    NONE = ""
    RISK = "risk"
    APPROVALS = "approvals"
    PRIVACY = "privacy"
    DEADLINE = "deadline_s"
    REQUIRED_TOOLS = "required_tools"


@dataclass(frozen=True, slots=True)
class RequiredRead:
    """A read that an informed decision rests on.

    Attributes:
        arguments: What the call must name, by argument; others are free.
    """

    tool: str
    arguments: Mapping[str, Pointer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MandatoryWrite:
    """A write that the ledger must confirm.

    Attributes:
        target: Which record it must change.
        values: What it must have written, by field; others are free.
    """

    tool: str
    target: Pointer
    values: Mapping[str, Pointer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplyPoint:
    """Something that the reply must say: the value of a pointer, or a known fact.

    Attributes:
        value: ``None`` where a fact is asked for.
        fact: A row of the extractor's table of facts; empty where a value is.
    """

    name: str
    value: Pointer | None = None
    fact: str = ""
    wording: Wording = Wording.PLAIN


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One row of the policy table: a bound on a field that a tool writes."""

    name: str
    tool: str
    field: str
    relation: Relation
    bound: Pointer


@dataclass(frozen=True, slots=True)
class Threshold:
    """Writes of a tool whose field exceeds a bound."""

    tool: str
    field: str
    above: Pointer


@dataclass(frozen=True, slots=True)
class Watched:
    """A row of the risk snapshot: which high-risk write needs which monitor.

    Attributes:
        monitor: Tool that must have been used, by tool log or ledger.
    """

    when: Threshold
    monitor: str


@dataclass(frozen=True, slots=True)
class Private:
    """A privacy tag: a value that only some write tools may carry."""

    value: Pointer
    may: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseSpec:
    """What is asked of one kind of ticket.

    Attributes:
        allowed_writes: Tools; a confirmed write by any other is unauthorised.
        dispositions: In which the ticket may end; never ``open``.
        turn_limit: Turns that are free; each further one costs efficiency.
        approvals: Writes that need a granted approval; empty leaves that guardrail off.
        risk: Empty leaves its guardrail off.
        privacy: Empty leaves its guardrail off.
        deadline_s: World time by which the ticket must be ended; ``None``: none.
        required_tools: Tools that must be used; empty leaves that guardrail off.

    Source:
        Project specification, E7.
    """

    required_reads: tuple[RequiredRead, ...]
    allowed_writes: tuple[str, ...]
    mandatory_writes: tuple[MandatoryWrite, ...]
    reply_points: tuple[ReplyPoint, ...]
    dispositions: tuple[Disposition, ...]
    turn_limit: int = 6
    policy: tuple[PolicyRule, ...] = ()
    approvals: tuple[Threshold, ...] = ()
    risk: tuple[Watched, ...] = ()
    privacy: tuple[Private, ...] = ()
    deadline_s: Pointer | None = None
    required_tools: tuple[str, ...] = ()

    def has(self, signal: Signal) -> bool:
        """Whether the structured signal exists in this case."""
        return signal is Signal.NONE or bool(getattr(self, signal.value))

    def pointers(self) -> Iterator[tuple[Pointer, Kind]]:
        """Yield every pointer of the case, with the kind of value that it must have."""
        for rule in self.policy:
            yield rule.bound, _BOUND.get(rule.relation, Kind.NUMBER)
        for row in (*self.approvals, *(row.when for row in self.risk)):
            yield row.above, Kind.NUMBER
        if self.deadline_s is not None:
            yield self.deadline_s, Kind.NUMBER
        yield from ((pointer, Kind.PLAIN) for pointer in self._answers())

    def _answers(self) -> Iterator[Pointer]:
        for read in self.required_reads:
            yield from read.arguments.values()
        for write in self.mandatory_writes:
            yield write.target
            yield from write.values.values()
        yield from (point.value for point in self.reply_points if point.value)
        yield from (tag.value for tag in self.privacy)

    def reading_tools(self) -> Iterator[str]:
        """Yield the tools that the case names as reads."""
        yield from (read.tool for read in self.required_reads)

    def writing_tools(self) -> Iterator[str]:
        """Yield the tools that the case names as writes."""
        yield from self.allowed_writes
        yield from (write.tool for write in self.mandatory_writes)
        yield from (rule.tool for rule in self.policy)
        yield from (row.tool for row in self.approvals)
        yield from (row.when.tool for row in self.risk)
        yield from (tool for tag in self.privacy for tool in tag.may)

    def other_tools(self) -> Iterator[str]:
        """Yield the tools that the case names whatever they do."""
        yield from self.required_tools
        yield from (row.monitor for row in self.risk)
