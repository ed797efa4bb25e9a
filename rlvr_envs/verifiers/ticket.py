"""A business ticket, scored by rules from what the harness found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import yaml
from typing_extensions import override

from rlvr_envs.errors import VerifierError
from rlvr_envs.records import JsonObject, ToolCall, ToolCategory
from rlvr_envs.relational import DatabaseFacts
from rlvr_envs.rewards.episode import Turn
from rlvr_envs.rewards.tickets.case import Disposition
from rlvr_envs.rewards.tickets.claims import EFFECTS
from rlvr_envs.rewards.tickets.inputs import (
    Approval,
    EnvironmentSnapshot,
    FinalState,
    RegisteredTool,
    Rollout,
    Ticket,
    TicketCase,
    ToolRegistry,
)
from rlvr_envs.rewards.tickets.parsing import parse_case
from rlvr_envs.rewards.tickets.score import SUCCESS, TicketScore, score_ticket
from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers import qualified, rowset
from rlvr_envs.verifiers.content import HIDDEN
from rlvr_envs.verifiers.database import SHOWN, facts_of, undeclared_rows
from rlvr_envs.verifiers.sql_invariant import queries
from rlvr_envs.verifiers.ticket_ledger import Record, Tracing, ending
from rlvr_envs.verifiers.tool_log import turns_of
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

REPLY = "reply"
"""The tool that the tool log shows where `submit` carried a reply."""

_TEXT = {"type": "string", "minLength": 1}
_HIDDEN_TEXT = {"anyOf": [_TEXT, HIDDEN]}
_TABLE_OF = {"anyOf": [{"type": "object"}, HIDDEN]}
_COLUMNS = {"type": "object", "additionalProperties": _TEXT}


def _object(required: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **more},
        "required": list(required),
        "additionalProperties": False,
    }


_RECORD = _object(
    {"table": rowset.TABLE, "target": _TEXT},
    kind={"enum": ["insert", "update", "delete"]},
    texts=_COLUMNS,
    numbers=_COLUMNS,
    customer=_TEXT,
    gives=_TEXT,
    takes=_TEXT,
)
_OPERATION = _object(
    {"category": {"enum": ["observe", "verify", "mutate", "terminal"]}},
    effect={"enum": list(EFFECTS)},
    repeatable={"type": "boolean"},
    record=_RECORD,
)


class TicketRubric(Verifier):
    """Scores a ticket; passed from a final reward of 0.9.

    Options:

    - ``case``: the case spec's file among the verifier's (YAML); ``snapshot``: the
      world as the episode began, for its pointers.
    - ``ticket``: ``name``, ``customer``, ``table`` and ``key`` of its own row,
      ``status`` (column), ``closed`` and ``escalated`` (that column's words for both
      ends; by default these).
    - ``operations``, by name, as the service declares them: ``category`` (observe,
      verify, mutate, terminal), ``effect`` and ``repeatable`` (as a tool registry has
      them), and of a write ``record``: ``table`` and ``kind`` of the row that
      confirms it, ``target`` (column), ``texts`` and ``numbers`` (field to column),
      ``customer``, ``gives``, ``takes`` (columns; cents to and from the customer).
    - ``tools``: the same for tools that are no requests. ``submit`` is shown as
      ``reply`` where its answer has a letter or a digit in it, so that a case can
      require one, whatever it says.
    - ``owners``: customer by target, where no column tells; ``besides``: tables that
      are nobody's business.
    - ``approvals``: ``statement`` for the grants of the final state (columns ``tool``
      and ``target``), ``table`` and ``target`` (where the ledger shows since when).

    A write is what the ledger has, traced by its turn to the request that made it; the
    ticket's own row is none. The reply is what ``submit`` carried.
    """

    schema: ClassVar[JsonObject] = _object(
        {
            "case": _TEXT,
            "snapshot": _TABLE_OF,
            "ticket": _object(
                {
                    "name": _HIDDEN_TEXT,
                    "customer": _HIDDEN_TEXT,
                    "table": rowset.TABLE,
                    "key": rowset.VALUES,
                    "status": _TEXT,
                },
                closed=_TEXT,
                escalated=_TEXT,
            ),
            "operations": {
                "type": "object",
                "additionalProperties": _OPERATION,
                "minProperties": 1,
            },
        },
        tools={"type": "object", "additionalProperties": _OPERATION},
        owners=_TABLE_OF,
        besides=rowset.BESIDES,
        approvals=_object(
            {"statement": _TEXT},
            table=rowset.TABLE,
            target=_TEXT,
        ),
    )

    @override
    @classmethod
    def flaw(cls, options: JsonObject) -> str:
        for name, row in options["operations"].items():
            if (row["category"] == "mutate") != ("record" in row):
                return f"{name}: an operation that writes, and no other, has a record."
        if "approvals" in options:
            return qualified.flaw(options["approvals"]["statement"], {})
        return ""

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        facts = facts_of(frozen)
        score = self.score(facts, context)
        strange = undeclared_rows(facts.diff, context.verification.writes)
        return Findings(
            checks=(self.check("" if score.success else _why(score)),),
            reward=score.final,
            collateral=strange[:SHOWN],
            details={"ticket": score.to_json()},
        )

    def score(self, facts: DatabaseFacts, context: Context) -> TicketScore:
        """Return the whole score.

        Raises:
            ValueError: If the case does not fit its snapshot or the operations.
        """
        final = self._final(facts, context)
        turns = tuple(_replied(turn, facts.answer) for turn in turns_of(facts))
        rollout = Rollout(turns, facts.answer, final, self._registry())
        return score_ticket(self._case(context), rollout)

    def _case(self, context: Context) -> TicketCase:
        ticket = context.plain(self.options["ticket"])
        text = (context.fixtures / self.options["case"]).read_text(encoding="utf-8")
        return TicketCase(
            Ticket(str(ticket["name"]), str(ticket["customer"])),
            EnvironmentSnapshot(context.plain(self.options["snapshot"])),
            parse_case(yaml.safe_load(text), self.options["case"]),
        )

    def _registry(self) -> ToolRegistry:
        rows = {**self.options.get("tools", {}), **self.options["operations"]}
        return ToolRegistry({name: _tool(name, row) for name, row in rows.items()})

    def _final(self, facts: DatabaseFacts, context: Context) -> FinalState:
        ticket = context.plain(self.options["ticket"])
        tracing = self._tracing(context, ticket)
        status, turn = ending(facts, tracing, ticket["status"])
        known = 0 < turn <= len(facts.times_s)
        left = {
            ticket.get("closed", "closed"): Disposition.CLOSED,
            ticket.get("escalated", "escalated"): Disposition.ESCALATED,
        }.get(status, Disposition.OPEN)
        ended_s = facts.times_s[turn - 1] if known else facts.ended_s
        return FinalState(
            disposition=left,
            ledger=tuple(tracing.entries(facts)),
            approvals=tuple(self._approvals(facts, context)),
            collateral=undeclared_rows(facts.diff, context.verification.writes),
            ended_s=None if left is Disposition.OPEN else ended_s,
        )

    def _tracing(self, context: Context, ticket: Mapping[str, Any]) -> Tracing:
        operations = self.options["operations"]
        return Tracing(
            records={
                name: Record(**row["record"]) if "record" in row else None
                for name, row in operations.items()
            },
            ticket=(ticket["table"], ticket["key"]),
            besides=tuple(self.options.get("besides", ())),
            owners=context.plain(self.options.get("owners", {})),
        )

    def _approvals(self, facts: DatabaseFacts, context: Context) -> Iterator[Approval]:
        options = self.options.get("approvals")
        if options is None:
            return
        found = queries(context).query(options["statement"], {})
        if found.problem:
            return  # What the agent made unreadable grants nothing.
        for row in found.rows:
            if not {"tool", "target"} <= row.keys():
                raise VerifierError("approvals: the statement gives tool and target.")
            target = str(row["target"])
            yield Approval(str(row["tool"]), target, _granted(facts, options, target))


def _granted(
    facts: DatabaseFacts, options: Mapping[str, Any], target: str
) -> int | None:
    turns = [
        change.turn - 1
        for change in facts.ledger.changes
        if change.table == options.get("table") and change.turn
        if change.new.get(options.get("target", "")) == target
    ]
    return turns[-1] if turns else None


def _tool(name: str, row: Mapping[str, Any]) -> RegisteredTool:
    return RegisteredTool(
        name,
        ToolCategory(row["category"]),
        effect=row.get("effect", ""),
        repeatable=row.get("repeatable", False),
    )


def _replied(turn: Turn, answer: str) -> Turn:
    if turn.call.name == "submit" and any(map(str.isalnum, answer)):
        return replace(turn, call=ToolCall(REPLY, turn.call.arguments))
    return turn


def _why(score: TicketScore) -> str:
    fired = ", ".join(f"{guard.name} (cap {guard.cap:.2f})" for guard in score.fired)
    told = f"; {fired}" if fired else ""
    return f"final reward {score.final:.3f}, below {SUCCESS}{told}"
