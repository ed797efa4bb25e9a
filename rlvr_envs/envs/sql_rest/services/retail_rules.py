"""What the retail desk may do to orders, as the shop's policy has it.

Each act reads with a lock, refuses with 404 or 409, and then writes; what it refuses
it has not begun.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from fastapi import HTTPException

from rlvr_envs.envs.sql_rest.services.episode import Episode, Row
from rlvr_envs.envs.sql_rest.services.retail_views import ADDRESS, found, order_key

PENDING, DELIVERED = "pending", "delivered"
MODIFIED = "pending (item modified)"
"""Such an order can be neither modified again nor cancelled."""

Pairs = Sequence[tuple[str, str]]

_SET_ADDRESS = ", ".join(f"{name} = %s" for name in ADDRESS)


def change_customer_address(
    here: Episode, user_id: str, address: Mapping[str, str]
) -> None:
    """Set a customer's default address."""
    statement = (
        f"UPDATE public.customers SET {_SET_ADDRESS} WHERE user_id = %s"  # noqa: S608 (our columns)
        " RETURNING user_id"
    )
    values = [address[name] for name in ADDRESS]
    found(here.row(statement, *values, user_id), "customer")


def change_order_address(
    here: Episode, order_id: str, address: Mapping[str, str]
) -> None:
    """Set where a pending order goes."""
    order = _order(here, order_id, PENDING)
    statement = f"UPDATE public.orders SET {_SET_ADDRESS} WHERE order_id = %s"  # noqa: S608 (our columns)
    here.rows(statement, *[address[name] for name in ADDRESS], order["order_id"])


def cancel(here: Episode, order_id: str, reason: str) -> None:
    """Cancel a pending order: each method gets back what it paid on balance."""
    order = _order(here, order_id, PENDING)
    paid: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in _payments(here, order):
        sign = 1 if row["kind"] == "payment" else -1
        paid[row["payment_method_id"]] += sign * row["amount"]
    for method_id, amount in paid.items():
        if amount > 0:
            _settle(here, order, _method(here, order, method_id), -amount)
    here.rows(
        "UPDATE public.orders SET status = 'cancelled', cancel_reason = %s"
        " WHERE order_id = %s",
        reason,
        order["order_id"],
    )


def change_payment(here: Episode, order_id: str, method_id: str) -> None:
    """Let another method pay the whole order, and refund the first one; once."""
    order = _order(here, order_id, PENDING)
    payments = _payments(here, order)
    new = _method(here, order, method_id)
    if len(payments) != 1:
        raise HTTPException(409, "The payment of this order was changed already.")
    amount, first = payments[0]["amount"], payments[0]["payment_method_id"]
    if first == method_id:
        raise HTTPException(409, "This payment method pays for the order already.")
    _settle(here, order, new, amount)
    _settle(here, order, _method(here, order, first), -amount)


def modify_items(here: Episode, order_id: str, pairs: Pairs, method_id: str) -> None:
    """Swap items of a pending order; the difference is paid or refunded at once."""
    order = _order(here, order_id, PENDING)
    swaps = _swaps(here, order, pairs)
    method = _method(here, order, method_id)
    difference = sum((new["price"] - old["price"] for old, new in swaps), Decimal(0))
    _settle(here, order, method, difference)
    for old, new in swaps:
        here.rows(
            "UPDATE public.order_items SET item_id = %s, price = %s"
            " WHERE order_id = %s AND line = %s",
            new["item_id"], new["price"], order["order_id"], old["line"],
        )  # fmt: skip
    _set_status(here, order, MODIFIED)


def exchange(here: Episode, order_id: str, pairs: Pairs, method_id: str) -> None:
    """Take an exchange down; the difference is settled when the items are back."""
    order = _order(here, order_id, DELIVERED)
    swaps = _swaps(here, order, pairs)
    method = _method(here, order, method_id)
    difference = sum((new["price"] - old["price"] for old, new in swaps), Decimal(0))
    _cover(method, difference)
    _send_back(here, order, (old["line"] for old, _ in swaps))
    for place, item_id in enumerate(sorted(new for _, new in pairs), start=1):
        here.insert(
            "public.replacement_items",
            order_id=order["order_id"],
            place=place,
            item_id=item_id,
        )
    here.rows(
        "UPDATE public.orders SET status = 'exchange requested',"
        " exchange_payment_method_id = %s, exchange_price_difference = %s"
        " WHERE order_id = %s",
        method_id, difference, order["order_id"],
    )  # fmt: skip


def give_back(
    here: Episode, order_id: str, item_ids: Sequence[str], method_id: str
) -> None:
    """Take a return down; the refund goes to the first payment or a gift card."""
    order = _order(here, order_id, DELIVERED)
    lines = _lines(here, order, item_ids)
    method = _method(here, order, method_id)
    first = _payments(here, order)[0]["payment_method_id"]
    if method["kind"] != "gift_card" and method_id != first:
        told = "A refund goes to the original payment method or to a gift card."
        raise HTTPException(409, told)
    _send_back(here, order, (line["line"] for line in lines))
    here.rows(
        "UPDATE public.orders SET status = 'return requested',"
        " return_payment_method_id = %s WHERE order_id = %s",
        method_id, order["order_id"],
    )  # fmt: skip


def _order(here: Episode, order_id: str, status: str) -> Row:
    statement = "SELECT * FROM public.orders WHERE order_id = %s FOR UPDATE"
    order = found(here.row(statement, order_key(order_id)), "order")
    if order["status"] != status:
        told = f"The order is {order['status']}; this needs one that is {status}."
        raise HTTPException(409, told)
    return order


def _payments(here: Episode, order: Row) -> Sequence[Row]:
    statement = "SELECT * FROM public.payments WHERE order_id = %s ORDER BY place"
    return here.rows(statement, order["order_id"])


def _method(here: Episode, order: Row, method_id: str) -> Row:
    """Return a payment method of the order's own customer."""
    row = here.row(
        "SELECT * FROM public.payment_methods"
        " WHERE payment_method_id = %s AND user_id = %s FOR UPDATE",
        method_id, order["user_id"],
    )  # fmt: skip
    return found(row, "payment method of the customer")


def _cover(method: Row, amount: Decimal) -> None:
    if method["kind"] == "gift_card" and method["balance"] < amount:
        raise HTTPException(409, "The gift card's balance does not cover the amount.")


def _settle(here: Episode, order: Row, method: Row, amount: Decimal) -> None:
    """Pay an amount, or refund it if it is negative; a gift card moves at once."""
    if not amount:
        return
    _cover(method, amount)
    here.insert(
        "public.payments",
        order_id=order["order_id"],
        place=len(_payments(here, order)) + 1,
        kind="payment" if amount > 0 else "refund",
        amount=abs(amount),
        payment_method_id=method["payment_method_id"],
    )
    here.rows(
        "UPDATE public.payment_methods SET balance = balance - %s"
        " WHERE payment_method_id = %s AND kind = 'gift_card'",
        amount, method["payment_method_id"],
    )  # fmt: skip


def _swaps(here: Episode, order: Row, pairs: Pairs) -> list[tuple[Row, Row]]:
    """Return each line with the variant that takes its place.

    Pairs are taken in sorted order, so that how a request lists them is no matter.
    """
    ordered = sorted(pairs)
    lines = _lines(here, order, [old for old, _ in ordered])
    chosen = [new for _, new in ordered]
    swaps = list(zip(lines, map(_variant, [here] * len(chosen), chosen), strict=True))
    for line, variant in swaps:
        _fits(line, variant)
    return swaps


def _fits(line: Row, variant: Row) -> None:
    if variant["product_id"] != line["product_id"]:
        raise HTTPException(409, "An item is swapped within its product only.")
    if variant["item_id"] == line["item_id"]:
        raise HTTPException(409, "An item is swapped for another one only.")
    if not variant["available"]:
        raise HTTPException(409, f"Item {variant['item_id']} is not available.")


def _variant(here: Episode, item_id: str) -> Row:
    statement = "SELECT * FROM public.variants WHERE item_id = %s"
    return found(here.row(statement, item_id), f"item as {item_id}")


def _lines(here: Episode, order: Row, item_ids: Iterable[str]) -> list[Row]:
    """Return a line of the order for each item named, each line once.

    Where an item came twice, its first line is taken first.
    """
    left: defaultdict[str, list[Row]] = defaultdict(list)
    for line in here.rows(_LINES, order["order_id"]):
        left[line["item_id"]].append(line)
    taken = []
    for item_id in item_ids:
        if not left[item_id]:
            told = f"The order has no item {item_id}, or not so many of it."
            raise HTTPException(409, told)
        taken.append(left[item_id].pop(0))
    return taken


_LINES = """SELECT i.line, i.item_id, i.price, v.product_id
FROM public.order_items i JOIN public.variants v ON v.item_id = i.item_id
WHERE i.order_id = %s ORDER BY i.line"""


def _send_back(here: Episode, order: Row, lines: Iterable[int]) -> None:
    for line in lines:
        here.insert("public.returned_items", order_id=order["order_id"], line=line)


def _set_status(here: Episode, order: Row, status: str) -> None:
    here.rows(
        "UPDATE public.orders SET status = %s WHERE order_id = %s",
        status, order["order_id"],
    )  # fmt: skip
