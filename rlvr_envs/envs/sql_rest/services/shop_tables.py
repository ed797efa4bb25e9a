"""The mock shop's tables and payments, for generators and for the service itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rlvr_envs.tasks.tables import Rows, Table

SCHEMA = """
CREATE TABLE customers (
  id text PRIMARY KEY,
  name text NOT NULL,
  email text NOT NULL,
  phone text NOT NULL
);
CREATE TABLE stock (
  sku text PRIMARY KEY,
  title text NOT NULL,
  available int NOT NULL CHECK (available >= 0)
);
CREATE TABLE orders (
  id int PRIMARY KEY,
  customer_id text NOT NULL REFERENCES customers,
  status text NOT NULL CHECK (status IN
    ('PAID', 'SHIPPED', 'DELIVERED', 'CANCELLED', 'PARTIALLY_REFUNDED', 'REFUNDED')),
  placed_on date NOT NULL,
  promised_on date NOT NULL,
  delivered_on date,
  paid_cents int NOT NULL CHECK (paid_cents >= 0),
  refunded_cents int NOT NULL DEFAULT 0 CHECK (refunded_cents BETWEEN 0 AND paid_cents),
  version int NOT NULL DEFAULT 1
);
CREATE TABLE order_lines (
  order_id int NOT NULL REFERENCES orders,
  line int NOT NULL,
  sku text NOT NULL REFERENCES stock,
  title text NOT NULL,
  quantity int NOT NULL CHECK (quantity > 0),
  unit_cents int NOT NULL CHECK (unit_cents >= 0),
  PRIMARY KEY (order_id, line)
);
CREATE TABLE policies (name text PRIMARY KEY, content text NOT NULL);
CREATE TABLE risk_scores (
  order_id int PRIMARY KEY REFERENCES orders,
  score int NOT NULL CHECK (score BETWEEN 0 AND 100)
);
CREATE TABLE tickets (
  id text PRIMARY KEY,
  customer_id text NOT NULL REFERENCES customers,
  order_id int NOT NULL REFERENCES orders,
  status text NOT NULL CHECK (status IN ('OPEN', 'CLOSED', 'ESCALATED')),
  opened_at timestamptz NOT NULL,
  due_at timestamptz NOT NULL,
  subject text NOT NULL,
  message text NOT NULL,
  ended_at timestamptz
);
CREATE TABLE refunds (
  id text PRIMARY KEY,
  order_id int NOT NULL REFERENCES orders,
  cents int NOT NULL CHECK (cents > 0),
  reason text NOT NULL,
  made_at timestamptz NOT NULL
);
CREATE TABLE replacements (
  id text PRIMARY KEY,
  order_id int NOT NULL REFERENCES orders,
  sku text NOT NULL REFERENCES stock,
  quantity int NOT NULL CHECK (quantity > 0),
  made_at timestamptz NOT NULL
);
CREATE TABLE return_labels (
  id text PRIMARY KEY,
  order_id int NOT NULL REFERENCES orders,
  made_at timestamptz NOT NULL
);
CREATE TABLE credits (
  id text PRIMARY KEY,
  customer_id text NOT NULL REFERENCES customers,
  order_id int NOT NULL REFERENCES orders,
  cents int NOT NULL CHECK (cents > 0),
  reason text NOT NULL,
  made_at timestamptz NOT NULL
);
CREATE TABLE notes (
  id text PRIMARY KEY,
  ticket_id text NOT NULL REFERENCES tickets,
  body text NOT NULL,
  made_at timestamptz NOT NULL
);
CREATE TABLE approval_requests (
  id text PRIMARY KEY,
  operation text NOT NULL,
  order_id int NOT NULL REFERENCES orders,
  cents int NOT NULL CHECK (cents > 0),
  reason text NOT NULL,
  made_at timestamptz NOT NULL
);
CREATE TABLE approvals (
  request_id text PRIMARY KEY REFERENCES approval_requests,
  operation text NOT NULL,
  order_id int NOT NULL REFERENCES orders,
  granted_at timestamptz NOT NULL
);
"""

CUSTOMERS = Table("public.customers", ("id", "name", "email", "phone"))
STOCK = Table("public.stock", ("sku", "title", "available"))
ORDERS = Table(
    "public.orders",
    (
        "id",
        "customer_id",
        "status",
        "placed_on",
        "promised_on",
        "delivered_on",
        "paid_cents",
        "refunded_cents",
        "version",
    ),
)
LINES = Table(
    "public.order_lines",
    ("order_id", "line", "sku", "title", "quantity", "unit_cents"),
    key=2,
)
POLICIES = Table("public.policies", ("name", "content"))
RISKS = Table("public.risk_scores", ("order_id", "score"))
TICKETS = Table(
    "public.tickets",
    (
        "id",
        "customer_id",
        "order_id",
        "status",
        "opened_at",
        "due_at",
        "subject",
        "message",
    ),
)


def policies(content: Mapping[str, Mapping[str, Any]]) -> Rows:
    """Return the rows of policies: each a name and plain JSON."""
    return [(name, json.dumps(rules)) for name, rules in content.items()]


def database(rows: Mapping[Table, Rows]) -> str:
    """Return the script of a shop with these rows, in an order that its keys allow."""
    order = (CUSTOMERS, STOCK, ORDERS, LINES, POLICIES, RISKS, TICKETS)
    return SCHEMA + "".join(table.inserts(rows.get(table, ())) for table in order)


PAYMENTS = "https://payments.test/v1/refunds"
"""Where the shop's payment provider pays back."""


def payment(order_id: int, cents: int) -> Mapping[str, int]:
    """Return what the provider is asked."""
    return {"order": order_id, "cents": cents}


def repaid(
    order_id: int, cents: int, *, status: int = 201, reason: str = ""
) -> Mapping[str, Any]:
    """Return the recorded exchange with the provider.

    Args:
        order_id: Of the order whose payment is paid back.
        cents: How much.
        status: What the provider answered.
        reason: Its word for a refusal; empty for none.
    """
    return {
        "method": "POST",
        "url": PAYMENTS,
        "request": payment(order_id, cents),
        "status": status,
        "answer": {"reason": reason} if reason else {"state": "accepted"},
    }
