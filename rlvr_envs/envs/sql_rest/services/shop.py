"""The mock shop: orders, refunds, tickets, and what an after-sales desk can do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Header, HTTPException, Query, Response
from pydantic import Field

from rlvr_envs.envs.sql_rest.services import strict_json
from rlvr_envs.envs.sql_rest.services.brief import Body, Route, brief_app
from rlvr_envs.envs.sql_rest.services.definition import Definition
from rlvr_envs.envs.sql_rest.services.episode import Episode, Here, Row
from rlvr_envs.envs.sql_rest.services.shop_payments import pay_back

PAGE = 50
"""Most rows of one page."""


Cents = Annotated[int, Field(gt=0, le=10_000_000)]
Words = Annotated[str, Field(min_length=1, max_length=2000)]


class RefundBody(Body):
    """A refund; the reason is a word of the policy."""

    cents: Cents
    reason: Words


class ReplacementBody(Body):
    """Another item, sent in place of the one that came."""

    sku: Words
    quantity: Annotated[int, Field(gt=0, le=100)] = 1


class CreditBody(Body):
    """Store credit for the customer of an order."""

    cents: Cents
    reason: Words


class NoteBody(Body):
    """An internal note."""

    body: Words


class ApprovalBody(Body):
    """What a supervisor is asked to allow."""

    operation: Literal["create_refund", "create_credit", "create_replacement"]
    order_id: int
    cents: Cents
    reason: Words


class NotificationBody(Body):
    """Which webhook is sent, about which order."""

    event: Literal["order.refunded", "order.replaced", "order.credited"]
    order_id: int


class StatusBody(Body):
    """The new status of an order."""

    status: Literal["PAID", "SHIPPED", "DELIVERED", "CANCELLED"]


def build() -> FastAPI:
    """Build the application."""
    return brief_app("Shop", _ROUTES)


async def list_orders(
    here: Here,
    customer_id: str | None = None,
    status: str | None = None,
    after: int = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE)] = 20,
) -> Any:
    """List orders by number; `next` is what to give as `after` for the next page."""
    rows = here.rows(
        "SELECT * FROM public.orders WHERE id > %s AND (%s::text IS NULL OR customer_id = %s)"
        " AND (%s::text IS NULL OR status = %s) ORDER BY id LIMIT %s",
        after, customer_id, customer_id, status, status, limit + 1,
    )  # fmt: skip
    page = rows[:limit]
    more = page[-1]["id"] if len(rows) > limit else None
    return {"orders": page, "next": more}


async def get_order(here: Here, order_id: int, response: Response) -> Any:
    """One order with its lines; `ETag` is its version."""
    order = _order(here, order_id)
    lines = here.rows(
        "SELECT line, sku, title, quantity, unit_cents FROM public.order_lines"
        " WHERE order_id = %s ORDER BY line",
        order_id,
    )
    response.headers["etag"] = f'"{order["version"]}"'
    return {**order, "lines": lines}


async def update_order(
    here: Here,
    order_id: int,
    body: StatusBody,
    if_match: Annotated[str | None, Header()] = None,
) -> Any:
    """Change an order's status; `If-Match` must carry the version that was read."""
    if if_match is None:
        raise HTTPException(428, "Say in If-Match which version you read.")
    _held(_order(here, order_id, lock=True), if_match)
    return here.row(
        "UPDATE public.orders SET status = %s, version = version + 1 WHERE id = %s RETURNING *",
        body.status, order_id,
    )  # fmt: skip


async def get_customer(here: Here, customer_id: str) -> Any:
    """One customer."""
    row = here.row("SELECT * FROM public.customers WHERE id = %s", customer_id)
    return _found(row, "customer")


async def get_stock(here: Here, sku: str) -> Any:
    """How many of an item are there."""
    return _found(here.row("SELECT * FROM public.stock WHERE sku = %s", sku), "item")


async def list_policies(here: Here) -> Any:
    """The names of the policies."""
    rows = here.rows("SELECT name FROM public.policies ORDER BY name")
    return {"policies": [row["name"] for row in rows]}


async def get_policy(here: Here, name: str) -> Any:
    """One policy."""
    row = here.row("SELECT content FROM public.policies WHERE name = %s", name)
    return {"name": name, **_rules(_found(row, "policy"))}


async def assess_risk(here: Here, order_id: int) -> Any:
    """How risky a refund of this order is, from 0 to 100; being asked is on record."""
    row = here.row("SELECT * FROM public.risk_scores WHERE order_id = %s", order_id)
    return _found(row, "order")


async def list_refunds(here: Here, order_id: int) -> Any:
    """The refunds of an order, oldest first."""
    _order(here, order_id)
    rows = here.rows(
        "SELECT * FROM public.refunds WHERE order_id = %s ORDER BY made_at, id",
        order_id,
    )
    return {"refunds": rows}


async def create_refund(
    here: Here,
    order_id: int,
    body: RefundBody,
    if_match: Annotated[str | None, Header()] = None,
) -> Any:
    """Refund a part or all of what was paid; each accepted request pays again."""
    order = _order(here, order_id, lock=True)
    if if_match is not None:
        _held(order, if_match)
    left = order["paid_cents"] - order["refunded_cents"]
    if body.cents > left:
        raise HTTPException(409, f"Only {left} cents can still be refunded.")
    pay_back(here, order_id, body.cents)
    whole = body.cents == left
    here.rows(
        "UPDATE public.orders SET refunded_cents = refunded_cents + %s, status = %s,"
        " version = version + 1 WHERE id = %s",
        body.cents, "REFUNDED" if whole else "PARTIALLY_REFUNDED", order_id,
    )  # fmt: skip
    return here.insert(
        "public.refunds",
        id=here.next_id("rf"),
        order_id=order_id,
        cents=body.cents,
        reason=body.reason,
        made_at=here.now(),
    )


async def create_replacement(here: Here, order_id: int, body: ReplacementBody) -> Any:
    """Send an item again, or another one; it is taken from stock."""
    _order(here, order_id)
    taken = here.row(
        "UPDATE public.stock SET available = available - %s"
        " WHERE sku = %s AND available >= %s RETURNING sku",
        body.quantity, body.sku, body.quantity,
    )  # fmt: skip
    if taken is None:
        raise HTTPException(409, "There are not so many of this item.")
    return here.insert(
        "public.replacements",
        id=here.next_id("rp"),
        order_id=order_id,
        sku=body.sku,
        quantity=body.quantity,
        made_at=here.now(),
    )


async def create_return_label(here: Here, order_id: int) -> Any:
    """Send the customer a label for a parcel back."""
    _order(here, order_id)
    name = here.next_id("rl")
    return here.insert(
        "public.return_labels", id=name, order_id=order_id, made_at=here.now()
    )


async def create_credit(here: Here, order_id: int, body: CreditBody) -> Any:
    """Give store credit for an order."""
    order = _order(here, order_id)
    return here.insert(
        "public.credits",
        id=here.next_id("cr"),
        customer_id=order["customer_id"],
        order_id=order_id,
        cents=body.cents,
        reason=body.reason,
        made_at=here.now(),
    )


async def request_approval(here: Here, body: ApprovalBody) -> Any:
    """Ask a supervisor; the answer takes a moment, and is read with the request."""
    _order(here, body.order_id)
    made = here.insert(
        "public.approval_requests",
        id=here.next_id("ap"),
        **body.model_dump(),
        made_at=here.now(),
    )
    return {**made, "state": "PENDING"}


async def get_approval(here: Here, request_id: str) -> Any:
    """One request for an approval and its state: PENDING, GRANTED or DECLINED."""
    row = here.row("SELECT * FROM public.approval_requests WHERE id = %s", request_id)
    asked = _found(row, "request for an approval")
    granted = "SELECT 1 FROM public.approvals WHERE request_id = %s"
    state = "PENDING"
    if here.row(granted, request_id):
        state = "GRANTED"
    elif _decided(here, asked):
        state = _decide(here, asked)
    return {**asked, "state": state}


async def get_ticket(here: Here, ticket_id: str) -> Any:
    """One ticket with its notes."""
    ticket = _ticket(here, ticket_id)
    notes = here.rows(
        "SELECT body, made_at FROM public.notes WHERE ticket_id = %s ORDER BY made_at, id",
        ticket_id,
    )
    return {**ticket, "notes": notes}


async def add_note(here: Here, ticket_id: str, body: NoteBody) -> Any:
    """Add an internal note to a ticket."""
    _ticket(here, ticket_id)
    return here.insert(
        "public.notes",
        id=here.next_id("nt"),
        ticket_id=ticket_id,
        body=body.body,
        made_at=here.now(),
    )


async def close_ticket(here: Here, ticket_id: str) -> Any:
    """Close a ticket."""
    return _end(here, ticket_id, "CLOSED")


async def escalate_ticket(here: Here, ticket_id: str) -> Any:
    """Hand a ticket over to a supervisor."""
    return _end(here, ticket_id, "ESCALATED")


async def notify(here: Here, body: NotificationBody) -> Any:
    """Send the warehouse's webhook about an order; each accepted request sends it."""
    order = _order(here, body.order_id)
    told = {
        "event": body.event,
        "order_id": order["id"],
        "status": order["status"],
        "refunded_cents": order["refunded_cents"],
    }
    status = here.sink.deliver(body.event, told, key=here.key, turn=here.turn)
    if status >= 300:
        raise HTTPException(
            502, f"The receiver answered {status}.", headers={"Retry-After": "1"}
        )
    return {"delivered": body.event, "order_id": order["id"]}


_ROUTES: tuple[Route, ...] = (
    ("GET", "/orders", list_orders, 200),
    ("GET", "/orders/{order_id:int}", get_order, 200),
    ("PATCH", "/orders/{order_id:int}", update_order, 200),
    ("GET", "/orders/{order_id:int}/risk", assess_risk, 200),
    ("GET", "/orders/{order_id:int}/refunds", list_refunds, 200),
    ("POST", "/orders/{order_id:int}/refunds", create_refund, 201),
    ("POST", "/orders/{order_id:int}/replacements", create_replacement, 201),
    ("POST", "/orders/{order_id:int}/return-labels", create_return_label, 201),
    ("POST", "/orders/{order_id:int}/credits", create_credit, 201),
    ("GET", "/customers/{customer_id}", get_customer, 200),
    ("GET", "/stock/{sku}", get_stock, 200),
    ("GET", "/policies", list_policies, 200),
    ("GET", "/policies/{name}", get_policy, 200),
    ("POST", "/approvals", request_approval, 201),
    ("GET", "/approvals/{request_id}", get_approval, 200),
    ("GET", "/tickets/{ticket_id}", get_ticket, 200),
    ("POST", "/tickets/{ticket_id}/notes", add_note, 201),
    ("POST", "/tickets/{ticket_id}/close", close_ticket, 200),
    ("POST", "/tickets/{ticket_id}/escalate", escalate_ticket, 200),
    ("POST", "/notifications", notify, 200),
)  # fmt: skip

SHOP = Definition(
    name="shop",
    build=build,
    effects={
        "create_refund": "refund",
        "create_replacement": "replacement",
        "create_return_label": "return_label",
        "create_credit": "credit",
        "request_approval": "approval",
        "escalate_ticket": "escalation",
    },
    repeatable=frozenset({"add_note"}),
)


def _found(row: Row | None, what: str) -> Row:
    if row is None:
        raise HTTPException(404, f"There is no such {what}.")
    return row


def _rules(policy: Row) -> Mapping[str, Any]:
    """Return a policy's content, which an agent that writes can have spoilt."""
    try:
        return dict(strict_json.loads(policy["content"]))
    except (TypeError, ValueError):
        raise HTTPException(500, "What is kept as this policy is none.") from None


def _order(here: Episode, order_id: int, *, lock: bool = False) -> Row:
    suffix = " FOR UPDATE" if lock else ""
    statement = f"SELECT * FROM public.orders WHERE id = %s{suffix}"  # noqa: S608 (our words)
    known = order_id if order_id < 1 << 31 else -1
    return _found(here.row(statement, known), "order")


def _ticket(here: Episode, ticket_id: str) -> Row:
    row = here.row("SELECT * FROM public.tickets WHERE id = %s", ticket_id)
    return _found(row, "ticket")


def _held(order: Row, if_match: str) -> None:
    if if_match.strip().strip('"') != str(order["version"]):
        raise HTTPException(412, "The order has changed since; read it again.")


def _end(here: Episode, ticket_id: str, status: str) -> Row:
    if _ticket(here, ticket_id)["status"] != "OPEN":
        raise HTTPException(409, "The ticket is not open any more.")
    made = here.row(
        "UPDATE public.tickets SET status = %s, ended_at = %s WHERE id = %s RETURNING *",
        status, here.now(), ticket_id,
    )  # fmt: skip
    return _found(made, "ticket")


def _decided(here: Episode, asked: Row) -> bool:
    rules: Mapping[str, Any] = here.settings.get("approvals", {})
    wait = timedelta(seconds=float(rules.get("after_s", 1)))
    return bool(here.now() - wait >= asked["made_at"])


def _decide(here: Episode, asked: Row) -> str:
    """Let the supervisor answer: what the settings allow is granted."""
    rules: Mapping[str, Any] = here.settings.get("approvals", {})
    if asked["cents"] > int(rules.get("up_to_cents", 0)):
        return "DECLINED"
    here.insert(
        "public.approvals",
        request_id=asked["id"],
        operation=asked["operation"],
        order_id=asked["order_id"],
        granted_at=here.now(),
    )
    return "GRANTED"
