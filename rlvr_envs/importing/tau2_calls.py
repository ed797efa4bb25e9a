"""The expected actions of a retail task as calls at the shop's HTTP door."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from rlvr_envs.errors import TaskError

Arguments = Mapping[str, Any]

ADDRESS = ("address1", "address2", "city", "state", "country", "zip")

TASKS = "tasks.json"
"""The corpus file that names the actions."""

TRANSFER = "transfer_to_human_agents"


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        body: JSON text; empty where there is none.
    """

    method: str
    path: str
    body: str = ""

    @property
    def reads(self) -> bool:
        """Whether it only looks."""
        return self.method == "GET"

    def call(self) -> dict[str, Any]:
        """Return it as a row of a script."""
        if self.reads:
            return {"http_get": {"path": self.path}}
        arguments = {"method": self.method, "path": self.path, "body": self.body}
        return {"http": arguments}


def request(name: str, arguments: Arguments) -> Request:
    """Return the request that does what an expected action does.

    Raises:
        TaskError: If the action is not one of the retail tools, or lacks an argument.
    """
    if name not in _REQUESTS:
        raise TaskError(f"The action {name!r} is not known.", file=TASKS)
    try:
        return _REQUESTS[name](arguments)
    except KeyError as error:
        text = f"The action {name!r} lacks the argument {error}."
        raise TaskError(text, file=TASKS) from None


def _get(path: str, **query: str) -> Request:
    return Request("GET", f"{path}?{urlencode(query)}" if query else path)


def _send(method: str, path: str, body: Mapping[str, Any]) -> Request:
    return Request(method, path, json.dumps(body, ensure_ascii=False))


def _order(arguments: Arguments, part: str = "") -> str:
    """A number sign would end the path."""
    bare = quote(arguments["order_id"].removeprefix("#"), safe="")
    return f"/orders/{bare}{part}"


def _only(arguments: Arguments, names: Sequence[str]) -> dict[str, Any]:
    return {name: arguments[name] for name in names}


def _pairs(arguments: Arguments) -> dict[str, Any]:
    old, new = arguments["item_ids"], arguments["new_item_ids"]
    if len(old) != len(new):
        raise TaskError("An action pairs items of different number.", file=TASKS)
    items = [
        {"item_id": one, "new_item_id": other}
        for one, other in zip(old, new, strict=True)
    ]
    return {"items": items, "payment_method_id": arguments["payment_method_id"]}


_REQUESTS: Mapping[str, Callable[[Arguments], Request]] = {
    "find_user_id_by_email": lambda a: _get("/customers", email=a["email"]),
    "find_user_id_by_name_zip": lambda a: _get(
        "/customers", **_only(a, ("first_name", "last_name", "zip"))
    ),
    "get_user_details": lambda a: _get(f"/customers/{quote(a['user_id'], safe='')}"),
    "get_order_details": lambda a: _get(_order(a)),
    "get_product_details": lambda a: _get(f"/products/{quote(a['product_id'])}"),
    "get_item_details": lambda a: _get(f"/items/{quote(a['item_id'])}"),
    "list_all_product_types": lambda _: _get("/products"),
    "calculate": lambda a: _get("/calculation", expression=a["expression"]),
    "cancel_pending_order": lambda a: _send(
        "POST", _order(a, "/cancellation"), _only(a, ("reason",))
    ),
    "modify_pending_order_address": lambda a: _send(
        "PUT", _order(a, "/address"), _only(a, ADDRESS)
    ),
    "modify_pending_order_payment": lambda a: _send(
        "PUT", _order(a, "/payment"), _only(a, ("payment_method_id",))
    ),
    "modify_pending_order_items": lambda a: _send(
        "POST", _order(a, "/modification"), _pairs(a)
    ),
    "exchange_delivered_order_items": lambda a: _send(
        "POST", _order(a, "/exchange"), _pairs(a)
    ),
    "return_delivered_order_items": lambda a: _send(
        "POST", _order(a, "/return"), _only(a, ("item_ids", "payment_method_id"))
    ),
    "modify_user_address": lambda a: _send(
        "PUT", f"/customers/{quote(a['user_id'], safe='')}/address", _only(a, ADDRESS)
    ),
    TRANSFER: lambda a: _send("POST", "/transfers", _only(a, ("summary",))),
}
