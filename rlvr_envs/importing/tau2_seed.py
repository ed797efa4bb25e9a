"""The retail database of tau2-bench, from one JSON file to relations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from rlvr_envs.tasks.tables import Cell, Table

Json = Mapping[str, Any]

_ADDRESS = ("address1", "address2", "city", "state", "country", "zip")
_ADDRESS_SQL = ",\n".join(f"  {name} text NOT NULL" for name in _ADDRESS)

SCHEMA = f"""CREATE TABLE products (
  product_id text PRIMARY KEY,
  name text NOT NULL
);
CREATE TABLE variants (
  item_id text PRIMARY KEY,
  product_id text NOT NULL REFERENCES products,
  available boolean NOT NULL,
  price numeric(10,2) NOT NULL,
  options jsonb NOT NULL
);
CREATE INDEX ON variants (product_id);
CREATE TABLE customers (
  user_id text PRIMARY KEY,
  first_name text NOT NULL,
  last_name text NOT NULL,
  email text NOT NULL UNIQUE,
{_ADDRESS_SQL}
);
CREATE TABLE payment_methods (
  payment_method_id text PRIMARY KEY,
  user_id text NOT NULL REFERENCES customers,
  kind text NOT NULL CHECK (kind IN ('gift_card', 'credit_card', 'paypal')),
  balance numeric(10,2) CHECK (balance >= 0),
  brand text,
  last_four text,
  CHECK ((kind = 'gift_card') = (balance IS NOT NULL))
);
CREATE INDEX ON payment_methods (user_id);
CREATE TABLE orders (
  order_id text PRIMARY KEY,
  user_id text NOT NULL REFERENCES customers,
  number int NOT NULL,
  status text NOT NULL,
{_ADDRESS_SQL},
  cancel_reason text,
  exchange_payment_method_id text REFERENCES payment_methods,
  exchange_price_difference numeric(10,2),
  return_payment_method_id text REFERENCES payment_methods,
  UNIQUE (user_id, number)
);
CREATE TABLE order_items (
  order_id text REFERENCES orders,
  line int,
  item_id text NOT NULL REFERENCES variants,
  price numeric(10,2) NOT NULL,
  PRIMARY KEY (order_id, line)
);
CREATE TABLE payments (
  order_id text REFERENCES orders,
  place int,
  kind text NOT NULL CHECK (kind IN ('payment', 'refund')),
  amount numeric(10,2) NOT NULL,
  payment_method_id text NOT NULL REFERENCES payment_methods,
  PRIMARY KEY (order_id, place)
);
CREATE TABLE shipments (
  tracking_id text PRIMARY KEY,
  order_id text NOT NULL REFERENCES orders
);
CREATE INDEX ON shipments (order_id);
CREATE TABLE shipment_items (
  tracking_id text REFERENCES shipments,
  place int,
  item_id text NOT NULL REFERENCES variants,
  PRIMARY KEY (tracking_id, place)
);
CREATE TABLE returned_items (
  order_id text,
  line int,
  PRIMARY KEY (order_id, line),
  FOREIGN KEY (order_id, line) REFERENCES order_items
);
CREATE TABLE replacement_items (
  order_id text REFERENCES orders,
  place int,
  item_id text NOT NULL REFERENCES variants,
  PRIMARY KEY (order_id, place)
);
CREATE TABLE transfers (
  transfer_id text PRIMARY KEY,
  summary text NOT NULL
);
"""
"""An order's ``number`` is its place among its customer's orders, from 1: the last
is the newest. What goes back is told by line, what comes instead by place in
sorted order, so that the order in which a request named them leaves no trace."""

TABLES = {
    table.name.removeprefix("public."): table
    for table in (
        Table("public.products", ("product_id", "name")),
        Table(
            "public.variants",
            ("item_id", "product_id", "available", "price", "options"),
        ),
        Table(
            "public.customers",
            ("user_id", "first_name", "last_name", "email", *_ADDRESS),
        ),
        Table(
            "public.payment_methods",
            (
                "payment_method_id",
                "user_id",
                "kind",
                "balance",
                "brand",
                "last_four",
            ),
        ),
        Table(
            "public.orders",
            ("order_id", "user_id", "number", "status", *_ADDRESS),
        ),
        Table("public.order_items", ("order_id", "line", "item_id", "price"), key=2),
        Table(
            "public.payments",
            ("order_id", "place", "kind", "amount", "payment_method_id"),
            key=2,
        ),
        Table("public.shipments", ("tracking_id", "order_id")),
        Table("public.shipment_items", ("tracking_id", "place", "item_id"), key=2),
    )
}

WRITTEN = (
    "customers",
    "payment_methods",
    "orders",
    "order_items",
    "payments",
    "returned_items",
    "replacement_items",
    "transfers",
)
"""Tables that the service writes."""

_MONEY = frozenset({"balance", "price", "amount", "exchange_price_difference"})
_WHOLE = frozenset({"number", "line", "place"})


def typed(column: str, text: str | None) -> Cell:
    """Return a value of a written table by its column's type, from its text."""
    if text is None:
        return None
    if column in _MONEY:
        return Decimal(text)
    return int(text) if column in _WHOLE else text


def script(database: Json) -> str:
    """Return the SQL that makes the whole shop.

    Args:
        database: ``products``, ``users`` and ``orders`` by id, as the corpus has them.

    Raises:
        KeyError: If a record lacks what every one has.
    """
    parts = [SCHEMA]
    for name, rows in _rows(database):
        parts.append(TABLES[name].inserts(rows))
    return "".join(parts)


def _rows(database: Json) -> Iterator[tuple[str, list[Sequence[Cell]]]]:
    products = list(database["products"].values())
    users = list(database["users"].values())
    orders = list(database["orders"].values())
    numbers = {
        order_id: place
        for user in users
        for place, order_id in enumerate(user["orders"], start=1)
    }
    yield "products", [(item["product_id"], item["name"]) for item in products]
    yield "variants", [row for item in products for row in _variants(item)]
    yield "customers", [_customer(user) for user in users]
    yield "payment_methods", [row for user in users for row in _methods(user)]
    yield "orders", [_order(order, numbers[order["order_id"]]) for order in orders]
    yield "order_items", [row for order in orders for row in _items(order)]
    yield "payments", [row for order in orders for row in _payments(order)]
    shipped = [pair for order in orders for pair in _shipments(order)]
    yield "shipments", [(tracking, order) for tracking, order, _ in shipped]
    yield (
        "shipment_items",
        [
            (tracking, place, item)
            for tracking, _, items in shipped
            for place, item in enumerate(items, start=1)
        ],
    )


def _variants(product: Json) -> Iterator[Sequence[Cell]]:
    for item in product["variants"].values():
        yield (
            item["item_id"],
            product["product_id"],
            # The text is read by the column's type, as every literal is.
            "true" if item["available"] else "false",
            money(item["price"]),
            json.dumps(item["options"], sort_keys=True, ensure_ascii=False),
        )


def _customer(user: Json) -> Sequence[Cell]:
    name = user["name"]
    return (
        user["user_id"],
        name["first_name"],
        name["last_name"],
        user["email"],
        *_address(user),
    )


def _methods(user: Json) -> Iterator[Sequence[Cell]]:
    for method in user["payment_methods"].values():
        balance = money(method["balance"]) if "balance" in method else None
        yield (
            method["id"],
            user["user_id"],
            method["source"],
            balance,
            method.get("brand"),
            method.get("last_four"),
        )


def _order(order: Json, number: int) -> Sequence[Cell]:
    head = (order["order_id"], order["user_id"], number, order["status"])
    return (*head, *_address(order))


def _items(order: Json) -> Iterator[Sequence[Cell]]:
    for line, item in enumerate(order["items"], start=1):
        yield order["order_id"], line, item["item_id"], money(item["price"])


def _payments(order: Json) -> Iterator[Sequence[Cell]]:
    for place, payment in enumerate(order["payment_history"], start=1):
        yield (
            order["order_id"],
            place,
            payment["transaction_type"],
            money(payment["amount"]),
            payment["payment_method_id"],
        )


def _shipments(order: Json) -> Iterator[tuple[str, str, list[str]]]:
    for shipment in order["fulfillments"]:
        for tracking in shipment["tracking_id"]:
            yield tracking, order["order_id"], shipment["item_ids"]


def _address(record: Json) -> tuple[str, ...]:
    return tuple(record["address"][name] for name in _ADDRESS)


def money(value: float) -> Decimal:
    """Return an amount of the corpus, a JSON number, to the cent."""
    return Decimal(str(value)).quantize(Decimal("0.01"))
