"""One after-sales ticket, the tools of its shop, and rollouts of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from rlvr_envs.records import ToolCall, ToolCategory
from rlvr_envs.rewards.episode import Turn
from rlvr_envs.rewards.tickets.case import Disposition
from rlvr_envs.rewards.tickets.inputs import (
    EnvironmentSnapshot,
    FinalState,
    LedgerEntry,
    RegisteredTool,
    Rollout,
    Ticket,
    TicketCase,
    ToolRegistry,
)
from rlvr_envs.rewards.tickets.parsing import parse_case

no_deadline = settings(deadline=None)
"""For properties: a busy machine is no failure."""

SNAPSHOT: dict[str, Any] = {
    "order": {"id": "1001", "paid_cents": 8500, "email": "ada@example.org"},
    "policy": {
        "refund_cents": 4250,
        "reasons": ["damaged", "late"],
        "approval_above_cents": 4000,
        "risk_above_cents": 4000,
    },
    "sla": {"deadline_s": 1000},
}

SPEC: dict[str, Any] = {
    "required_reads": [
        {"tool": "get_order", "arguments": {"order_id": "order.id"}},
        "get_policy",
    ],
    "allowed_writes": ["issue_refund", "add_note"],
    "mandatory_writes": [
        {
            "tool": "issue_refund",
            "target": "order.id",
            "values": {"amount_cents": "policy.refund_cents"},
        }
    ],
    "reply_points": [
        {"name": "amount", "value": "policy.refund_cents", "wording": "cents"},
        {"name": "order", "value": "order.id"},
        {"name": "apology", "fact": "apology"},
    ],
    "dispositions": ["closed"],
    "turn_limit": 6,
    "policy": [
        {
            "name": "not above what was paid",
            "tool": "issue_refund",
            "field": "amount_cents",
            "at_most": "order.paid_cents",
        },
        {
            "name": "a known reason",
            "tool": "issue_refund",
            "field": "reason",
            "one_of": "policy.reasons",
        },
    ],
}

REGISTRY = ToolRegistry(
    {
        tool.name: tool
        for tool in (
            RegisteredTool("get_order", ToolCategory.OBSERVE),
            RegisteredTool("get_policy", ToolCategory.OBSERVE),
            RegisteredTool("watch_account", ToolCategory.VERIFY),
            RegisteredTool("issue_refund", ToolCategory.MUTATE, effect="refund"),
            RegisteredTool("send_item", ToolCategory.MUTATE, effect="replacement"),
            RegisteredTool("add_note", ToolCategory.MUTATE, repeatable=True),
            RegisteredTool("close_ticket", ToolCategory.TERMINAL),
        )
    }
)

GOOD_REPLY = (
    "We are sorry that your lamp broke. Your refund of 42.50 EUR for order 1001 "
    "has been issued."
)


def case(**changes: Any) -> TicketCase:
    """Return the refund ticket with some keys of its spec changed."""
    return TicketCase(
        Ticket("T-1", customer="c-7", text="My lamp came broken."),
        EnvironmentSnapshot(SNAPSHOT),
        parse_case({**SPEC, **changes}),
    )


def turn(name: str, text: str = "ok", *, ok: bool = True, **arguments: Any) -> Turn:
    return Turn(ToolCall(name, arguments), text, ok=ok)


READS = (turn("get_order", order_id="1001"), turn("get_policy"))
CLOSE = turn("close_ticket")


def refund(cents: object = 4250, **changes: Any) -> LedgerEntry:
    entry = LedgerEntry(
        tool="issue_refund",
        target="1001",
        values={"amount_cents": cents, "reason": "damaged"},
        customer="c-7",
        customer_cents=4250,
        turn=2,
    )
    return replace(entry, **changes)


def note(text: str = "called back") -> LedgerEntry:
    return LedgerEntry("add_note", "1001", {"text": text}, customer="c-7", turn=3)


def rollout(
    *ledger: LedgerEntry,
    reply: str = GOOD_REPLY,
    turns: tuple[Turn, ...] = (*READS, turn("issue_refund"), CLOSE),
    left: Disposition = Disposition.CLOSED,
    **final: Any,
) -> Rollout:
    state = FinalState(left, ledger, ended_s=500.0, **final)
    return Rollout(turns, reply, state, REGISTRY)


GOLD = rollout(refund())
NULL = Rollout((), "", FinalState(), REGISTRY)
VERBAL = rollout(reply="refund arranged", turns=(*READS, CLOSE))

entries = st.builds(
    LedgerEntry,
    tool=st.sampled_from(["issue_refund", "send_item", "add_note", "", "sql"]),
    target=st.sampled_from(["1001", "1002"]),
    values=st.fixed_dictionaries(
        {},
        optional={
            "amount_cents": st.sampled_from([4250, 9000, "4250", float("nan"), True]),
            "reason": st.sampled_from(["damaged", "mood"]),
        },
    ),
    customer=st.sampled_from(["", "c-7", "c-8"]),
    customer_cents=st.sampled_from([-100, 0, 4250]),
    turn=st.sampled_from([None, 0, 2, 5]),
)
logs = st.lists(
    st.sampled_from([*READS, CLOSE, turn("get_order", order_id="7"), turn("rm")]),
    max_size=20,
).map(tuple)
replies = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            ["Sorry.", "42.50", "order 1001", "Refund issued.", "we guarantee", "No."]
        ),
        max_size=6,
    ).map(" ".join),
)
rollouts = st.builds(
    lambda ledger, turns, reply, left, collateral: rollout(
        *ledger, reply=reply, turns=turns, left=left, collateral=collateral
    ),
    st.lists(entries, max_size=5),
    logs,
    replies,
    st.sampled_from(list(Disposition)),
    st.sampled_from([(), ("orders 1002",)]),
)
