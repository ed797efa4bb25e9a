"""What the retail desk shows of customers, orders and products."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from fastapi import HTTPException

from rlvr_envs.envs.sql_rest.services.episode import Episode, Row

ADDRESS = ("address1", "address2", "city", "state", "country", "zip")

_VARIANT = (
    "SELECT item_id, product_id, available, price, options FROM public.variants"
    " WHERE {column} = %s ORDER BY item_id"
)


def found(row: Row | None, what: str) -> Row:
    """Return a row.

    Raises:
        HTTPException: 404, if there is none.
    """
    if row is None:
        raise HTTPException(404, f"There is no such {what}.")
    return row


def order_key(order_id: str) -> str:
    """Return an order's id as the shop writes it: with one number sign."""
    return "#" + order_id.removeprefix("#")


def customer_of_email(here: Episode, email: str) -> Any:
    """Return the id of the customer with an address, in either case."""
    statement = "SELECT user_id FROM public.customers WHERE lower(email) = lower(%s)"
    return found(here.row(statement, email), "customer")


def customer_of_name(here: Episode, first: str, last: str, zip_code: str) -> Any:
    """Return the id of the customer of a name, in either case, and a zip code."""
    statement = (
        "SELECT user_id FROM public.customers WHERE lower(first_name) = lower(%s)"
        " AND lower(last_name) = lower(%s) AND zip = %s ORDER BY user_id"
    )
    return found(here.row(statement, first, last, zip_code), "customer")


def customer(here: Episode, user_id: str) -> Any:
    """Return a customer."""
    row = here.row("SELECT * FROM public.customers WHERE user_id = %s", user_id)
    known = found(row, "customer")
    methods = here.rows(
        "SELECT payment_method_id, kind, balance, brand, last_four"
        " FROM public.payment_methods WHERE user_id = %s ORDER BY payment_method_id",
        user_id,
    )
    orders = here.rows(
        "SELECT order_id FROM public.orders WHERE user_id = %s ORDER BY number", user_id
    )
    return {
        "user_id": user_id,
        "first_name": known["first_name"],
        "last_name": known["last_name"],
        "email": known["email"],
        "address": _address(known),
        "payment_methods": [_shown(method) for method in methods],
        "orders": [row["order_id"] for row in orders],
    }


def order(here: Episode, order_id: str) -> Any:
    """Return an order; what has not happened to it is left out."""
    key = order_key(order_id)
    row = here.row("SELECT * FROM public.orders WHERE order_id = %s", key)
    known = found(row, "order")
    marks = {name: known[name] for name in _MARKS if known[name] is not None}
    return {
        "order_id": key,
        "user_id": known["user_id"],
        "status": known["status"],
        "address": _address(known),
        "items": _shown_all(here.rows(_ITEMS, key)),
        "shipments": here.rows(_SHIPMENTS, key),
        "payments": _shown_all(here.rows(_PAYMENTS, key)),
        **_shown(marks),
        **_swapped(here, key),
    }


def products(here: Episode) -> Any:
    """Return all products by name."""
    rows = here.rows("SELECT product_id, name FROM public.products ORDER BY name")
    return {"products": rows}


def product(here: Episode, product_id: str) -> Any:
    """Return a product with its variants."""
    row = here.row("SELECT * FROM public.products WHERE product_id = %s", product_id)
    known = found(row, "product")
    variants = here.rows(_VARIANT.format(column="product_id"), product_id)
    return {**known, "variants": _shown_all(variants)}


def item(here: Episode, item_id: str) -> Any:
    """Return a variant."""
    row = here.row(_VARIANT.format(column="item_id"), item_id)
    return _shown(found(row, "item"))


_MARKS = (
    "cancel_reason",
    "exchange_payment_method_id",
    "exchange_price_difference",
    "return_payment_method_id",
)
_ITEMS = """SELECT p.name, v.product_id, i.item_id, i.price, v.options
FROM public.order_items i JOIN public.variants v ON v.item_id = i.item_id
JOIN public.products p ON p.product_id = v.product_id
WHERE i.order_id = %s ORDER BY i.line"""
_SHIPMENTS = """SELECT s.tracking_id, array_agg(i.item_id ORDER BY i.place) AS item_ids
FROM public.shipments s JOIN public.shipment_items i ON i.tracking_id = s.tracking_id
WHERE s.order_id = %s GROUP BY s.tracking_id ORDER BY s.tracking_id"""
_PAYMENTS = """SELECT kind, amount, payment_method_id FROM public.payments
WHERE order_id = %s ORDER BY place"""
_RETURNED = """SELECT i.item_id FROM public.returned_items r JOIN public.order_items i
ON i.order_id = r.order_id AND i.line = r.line WHERE r.order_id = %s ORDER BY r.line"""
_REPLACEMENTS = """SELECT item_id FROM public.replacement_items
WHERE order_id = %s ORDER BY place"""


def _swapped(here: Episode, key: str) -> dict[str, Any]:
    lists = {
        "returned_items": here.rows(_RETURNED, key),
        "replacement_items": here.rows(_REPLACEMENTS, key),
    }
    return {
        name: [row["item_id"] for row in rows] for name, rows in lists.items() if rows
    }


def _address(row: Row) -> dict[str, str]:
    return {name: row[name] for name in ADDRESS}


def _shown_all(rows: Sequence[Row]) -> list[Row]:
    return [_shown(row) for row in rows]


def _shown(row: Row) -> dict[str, Any]:
    """Amounts as text: a reader of JSON would make floats of numbers."""
    return {
        name: str(value) if isinstance(value, Decimal) else value
        for name, value in row.items()
        if value is not None
    }
