"""The retail desk: what an agent of tau2-bench's retail domain can look up and do."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Query
from pydantic import Field

from rlvr_envs.envs.sql_rest.services import retail_rules as rules
from rlvr_envs.envs.sql_rest.services import retail_views as views
from rlvr_envs.envs.sql_rest.services.brief import Body, Route, brief_app
from rlvr_envs.envs.sql_rest.services.definition import Definition
from rlvr_envs.envs.sql_rest.services.episode import Here
from rlvr_envs.envs.sql_rest.services.retail_sums import calculated

Line = Annotated[str, Field(max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=100)]


class AddressBody(Body):
    """A whole address; the second line may be empty."""

    address1: Line
    address2: Line
    city: Line
    state: Line
    country: Line
    zip: Line


class CancellationBody(Body):
    """Why an order is cancelled."""

    reason: Literal["no longer needed", "ordered by mistake"]


class PaymentBody(Body):
    """The customer's payment method that is to pay instead."""

    payment_method_id: Name


class SwapBody(Body):
    """One item of an order, and the item that takes its place."""

    item_id: Name
    new_item_id: Name


class SwapsBody(Body):
    """All items to be swapped, and what pays or receives the difference."""

    items: Annotated[list[SwapBody], Field(min_length=1, max_length=100)]
    payment_method_id: Name


class ReturnBody(Body):
    """All items to be returned (one that came twice may stand twice)."""

    item_ids: Annotated[list[Name], Field(min_length=1, max_length=100)]
    payment_method_id: Name


class TransferBody(Body):
    """What the human agent has to know."""

    summary: Annotated[str, Field(min_length=1, max_length=5000)]


def build() -> FastAPI:
    """Build the application."""
    return brief_app("Retail desk", _ROUTES)


async def find_customer(
    here: Here,
    email: str | None = None,
    first_name: str | None = None,
    last_name: str | None = None,
    zip_code: Annotated[str | None, Query(alias="zip")] = None,
) -> Any:
    """Find a customer's id by `email`, or by `first_name`, `last_name` and `zip`."""
    if email is not None:
        return views.customer_of_email(here, email)
    if first_name is None or last_name is None or zip_code is None:
        told = "Give email, or first_name, last_name and zip."
        raise HTTPException(422, told)
    return views.customer_of_name(here, first_name, last_name, zip_code)


async def get_user_details(here: Here, user_id: str) -> Any:
    """One customer with payment methods and orders, the newest order last."""
    return views.customer(here, user_id)


async def modify_user_address(here: Here, user_id: str, body: AddressBody) -> Any:
    """Change a customer's default address."""
    rules.change_customer_address(here, user_id, body.model_dump())
    return views.customer(here, user_id)


async def get_order_details(here: Here, order_id: str) -> Any:
    """One order with items, shipments and payments."""
    return views.order(here, order_id)


async def cancel_pending_order(
    here: Here, order_id: str, body: CancellationBody
) -> Any:
    """Cancel a pending order and refund what was paid for it."""
    rules.cancel(here, order_id, body.reason)
    return views.order(here, order_id)


async def modify_pending_order_address(
    here: Here, order_id: str, body: AddressBody
) -> Any:
    """Change where a pending order goes."""
    rules.change_order_address(here, order_id, body.model_dump())
    return views.order(here, order_id)


async def modify_pending_order_payment(
    here: Here, order_id: str, body: PaymentBody
) -> Any:
    """Let another payment method pay for a pending order."""
    rules.change_payment(here, order_id, body.payment_method_id)
    return views.order(here, order_id)


async def modify_pending_order_items(here: Here, order_id: str, body: SwapsBody) -> Any:
    """Swap items of a pending order for others of the same product, once."""
    rules.modify_items(here, order_id, _pairs(body), body.payment_method_id)
    return views.order(here, order_id)


async def exchange_delivered_order_items(
    here: Here, order_id: str, body: SwapsBody
) -> Any:
    """Ask for items of a delivered order to be exchanged for others, once."""
    rules.exchange(here, order_id, _pairs(body), body.payment_method_id)
    return views.order(here, order_id)


async def return_delivered_order_items(
    here: Here, order_id: str, body: ReturnBody
) -> Any:
    """Ask for items of a delivered order to be returned, once."""
    rules.give_back(here, order_id, body.item_ids, body.payment_method_id)
    return views.order(here, order_id)


async def list_all_product_types(here: Here) -> Any:
    """The names and ids of all products."""
    return views.products(here)


async def get_product_details(here: Here, product_id: str) -> Any:
    """One product with its variants."""
    return views.product(here, product_id)


async def get_item_details(here: Here, item_id: str) -> Any:
    """One variant of a product."""
    return views.item(here, item_id)


async def calculate(expression: Annotated[str, Query(max_length=200)]) -> Any:
    """Reckon with numbers, `+ - * /` and parentheses; to the cent."""
    try:
        return {"result": calculated(expression)}
    except ValueError as error:
        raise HTTPException(422, str(error)) from None


async def transfer_to_human_agents(here: Here, body: TransferBody) -> Any:
    """Hand the customer over to a human agent."""
    name = here.next_id("transfer")
    return here.insert("public.transfers", transfer_id=name, summary=body.summary)


def _pairs(body: SwapsBody) -> list[tuple[str, str]]:
    return [(swap.item_id, swap.new_item_id) for swap in body.items]


_ROUTES: tuple[Route, ...] = (
    ("GET", "/customers", find_customer, 200),
    ("GET", "/customers/{user_id}", get_user_details, 200),
    ("PUT", "/customers/{user_id}/address", modify_user_address, 200),
    ("GET", "/orders/{order_id}", get_order_details, 200),
    ("POST", "/orders/{order_id}/cancellation", cancel_pending_order, 200),
    ("PUT", "/orders/{order_id}/address", modify_pending_order_address, 200),
    ("PUT", "/orders/{order_id}/payment", modify_pending_order_payment, 200),
    ("POST", "/orders/{order_id}/modification", modify_pending_order_items, 200),
    ("POST", "/orders/{order_id}/exchange", exchange_delivered_order_items, 200),
    ("POST", "/orders/{order_id}/return", return_delivered_order_items, 200),
    ("GET", "/products", list_all_product_types, 200),
    ("GET", "/products/{product_id}", get_product_details, 200),
    ("GET", "/items/{item_id}", get_item_details, 200),
    ("GET", "/calculation", calculate, 200),
    ("POST", "/transfers", transfer_to_human_agents, 200),
)
"""A path names an order without its number sign, which would end the path."""

RETAIL = Definition(
    name="retail",
    build=build,
    effects={
        "cancel_pending_order": "cancellation",
        "modify_pending_order_address": "address_change",
        "modify_pending_order_payment": "payment_change",
        "modify_pending_order_items": "item_change",
        "exchange_delivered_order_items": "exchange",
        "return_delivered_order_items": "return",
        "modify_user_address": "address_change",
        "transfer_to_human_agents": "escalation",
    },
    repeatable=frozenset({"modify_pending_order_address", "modify_user_address"}),
)
