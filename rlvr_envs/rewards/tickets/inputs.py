"""What a ticket is scored from: three records written once, three from each rollout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from rlvr_envs.records import JsonObject, ToolCategory, ToolSpec
from rlvr_envs.rewards.episode import Turn
from rlvr_envs.rewards.tickets.case import CaseSpec, Disposition, Kind
from rlvr_envs.rewards.tickets.pointers import Pointer, is_list, is_number, resolve

READING = frozenset({ToolCategory.OBSERVE, ToolCategory.VERIFY})
"""Categories whose calls are reads."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a customer asked.

    Attributes:
        customer: Whose ticket it is, as ledger entries name customers.
        text: For the agent; no rule reads it.
    """

    name: str
    customer: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class EnvironmentSnapshot:
    """The world as the episode began with it; pointers are looked up here."""

    data: JsonObject

    def value(self, pointer: Pointer) -> Any:
        """Return what a pointer stands for.

        Raises:
            ValueError: If it leads nowhere.
        """
        return resolve(pointer, self.data)


@dataclass(frozen=True, slots=True)
class TicketCase:
    """The three inputs that are written once."""

    ticket: Ticket
    snapshot: EnvironmentSnapshot
    spec: CaseSpec


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A tool as the registry had it when the episode ran.

    Attributes:
        effect: What a customer would call its write: a row of the extractor's table
            of effects, such as ``refund``; empty for a tool that no reply speaks of.
        repeatable: Whether it may write the same record more than once.
    """

    name: str
    category: ToolCategory
    effect: str = ""
    repeatable: bool = False

    @property
    def reads(self) -> bool:
        """Whether it only looks."""
        return self.category in READING

    @property
    def writes(self) -> bool:
        """Whether it changes the world."""
        return self.category is ToolCategory.MUTATE


@dataclass(frozen=True, slots=True)
class ToolRegistry:
    """Snapshot of the tools; what a tool is follows from here, not from a turn."""

    tools: Mapping[str, RegisteredTool]

    @classmethod
    def of(
        cls,
        specs: Iterable[ToolSpec],
        *,
        effects: Mapping[str, str] | None = None,
        repeatable: Iterable[str] = (),
    ) -> ToolRegistry:
        """Make a registry of tool specs.

        Args:
            specs: Each name once.
            effects: Effect of a tool's write, by tool name.
            repeatable: Names of tools that may write a record more than once.
        """
        said, again = effects or {}, set(repeatable)
        return cls(
            {
                spec.name: RegisteredTool(
                    spec.name,
                    spec.category,
                    effect=said.get(spec.name, ""),
                    repeatable=spec.name in again,
                )
                for spec in specs
            }
        )


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One committed write, as the harness's own ledger has it.

    Attributes:
        tool: To which the harness traces it; empty if to none.
        target: Record that it changed, as text.
        values: What was written, by field.
        customer: Whose record it is; empty if nobody's.
        customer_cents: Money that it moves to the customer; negative takes from them.
        turn: Index of the turn that committed it, from 0; ``None`` if not known.
    """

    tool: str
    target: str
    values: JsonObject = field(default_factory=dict)
    customer: str = ""
    customer_cents: int = 0
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """A granted approval, as the sandbox's approval table holds it.

    Attributes:
        turn: Index of the turn after which it stood; ``None``: before the first.
    """

    tool: str
    target: str
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class FinalState:
    """The sandbox as the episode left it.

    Attributes:
        ledger: In the order of commits; the ticket's own status is not in it.
        collateral: Records changed outside the declared set.
        ended_s: World time at which the ticket was ended; ``None`` if it was not.
    """

    disposition: Disposition = Disposition.OPEN
    ledger: tuple[LedgerEntry, ...] = ()
    approvals: tuple[Approval, ...] = ()
    collateral: tuple[str, ...] = ()
    ended_s: float | None = None


@dataclass(frozen=True, slots=True)
class Rollout:
    """The three inputs that each rollout brings.

    Attributes:
        turns: The tool log. Observations are never read.
        reply: Last words to the customer; read by the extractor alone.
    """

    turns: tuple[Turn, ...]
    reply: str
    final: FinalState
    registry: ToolRegistry


_KINDS: Mapping[Kind, Callable[[object], bool]] = MappingProxyType(
    {
        Kind.NUMBER: is_number,
        Kind.LIST: is_list,
        Kind.PLAIN: lambda value: is_number(value) or isinstance(value, str | bool),
    }
)


def check_case(case: TicketCase, registry: ToolRegistry) -> None:
    """See that a case fits its snapshot and its tools; the loader calls this once.

    Raises:
        ValueError: If a pointer leads nowhere or to the wrong kind of value, or a tool is not registered or is
            not of the kind that the case takes it for.
    """
    spec = case.spec
    for pointer, kind in spec.pointers():
        found = case.snapshot.value(pointer)
        if not _KINDS[kind](found):
            raise ValueError(f"{pointer} must be a {kind}, not {found!r}.")
    wanted = (
        (spec.reading_tools(), "reads", lambda tool: tool.reads),
        (spec.writing_tools(), "writes", lambda tool: tool.writes),
        (spec.other_tools(), "is registered", lambda _: True),
    )
    for names, verb, fits in wanted:
        for name in names:
            tool = registry.tools.get(name)
            if tool is None or not fits(tool):
                known = ", ".join(sorted(registry.tools))
                raise ValueError(
                    f"The case takes {name!r} for a tool that {verb}; known: {known}."
                )
