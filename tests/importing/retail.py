"""A retail corpus of two products, two customers and a few tickets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]

ADDRESS = {
    "address1": "1 Long Lane",
    "address2": "",
    "city": "Denver",
    "state": "CO",
    "country": "USA",
    "zip": "80279",
}
MOVED = {**ADDRESS, "address1": "2 Short Street", "zip": "80280"}

_PRICES = {
    "L1": ("Lamp", 50.0, True),
    "L2": ("Lamp", 60.0, True),
    "L3": ("Lamp", 45.5, True),
    "L4": ("Lamp", 10.0, False),
    "M1": ("Mug", 5.0, True),
    "M2": ("Mug", 7.1, True),
}


def _products() -> Json:
    found: Json = {}
    for item_id, (name, price, available) in _PRICES.items():
        key = f"P-{name}"
        product = {"name": name, "product_id": key, "variants": {}}
        found.setdefault(key, product)["variants"][item_id] = {
            "item_id": item_id,
            "options": {"kind": item_id},
            "available": available,
            "price": price,
        }
    return found


def _order(order_id: str, user: str, status: str, items: str, paid_by: str) -> Json:
    rows: list[Json] = [
        {
            "name": _PRICES[item][0],
            "product_id": f"P-{_PRICES[item][0]}",
            "item_id": item,
            "price": _PRICES[item][1],
            "options": {"kind": item},
        }
        for item in items.split()
    ]
    payment = {
        "transaction_type": "payment",
        "amount": sum(row["price"] for row in rows),
        "payment_method_id": paid_by,
    }
    shipped = {"tracking_id": [f"T{order_id}"], "item_ids": items.split()}
    return {
        "order_id": order_id,
        "user_id": user,
        "address": ADDRESS,
        "items": rows,
        "status": status,
        "fulfillments": [] if status == "pending" else [shipped],
        "payment_history": [payment],
    }


def _user(user_id: str, name: str, methods: Sequence[Json], orders: str) -> Json:
    first, last = name.split()
    return {
        "user_id": user_id,
        "name": {"first_name": first, "last_name": last},
        "address": ADDRESS,
        "email": f"{first.lower()}@example.com",
        "payment_methods": {method["id"]: method for method in methods},
        "orders": orders.split(),
    }


def _card(key: str) -> Json:
    return {"source": "credit_card", "id": key, "brand": "visa", "last_four": "1111"}


def database() -> Json:
    """Return the shop as the corpus has it."""
    gift = {"source": "gift_card", "id": "gift_1", "balance": 12.0}
    paypal = {"source": "paypal", "id": "paypal_1"}
    users = [
        _user("ada_1", "Ada Novak", [gift, _card("card_1"), paypal], "#W2 #W1 #W4 #W5"),
        _user("bob_2", "Bob Klein", [_card("card_2")], "#W3"),
    ]
    orders = [
        _order("#W1", "ada_1", "pending", "L1 M1", "card_1"),
        _order("#W2", "ada_1", "delivered", "L1 M1 L1", "paypal_1"),
        _order("#W3", "bob_2", "processed", "M2", "card_2"),
        _order("#W4", "ada_1", "pending", "M1", "gift_1"),
        _order("#W5", "ada_1", "pending", "L1 L1", "card_1"),
    ]
    return {
        "products": _products(),
        "users": {user["user_id"]: user for user in users},
        "orders": {order["order_id"]: order for order in orders},
    }


def _find(first: str, last: str) -> tuple[str, Json]:
    arguments = {"first_name": first, "last_name": last, "zip": "80279"}
    return "find_user_id_by_name_zip", arguments


TICKETS: Mapping[str, tuple[Sequence[tuple[str, Json]], Sequence[str]]] = {
    "cancel": (
        [
            _find("Ada", "Novak"),
            ("cancel_pending_order", {"order_id": "#W4", "reason": "no longer needed"}),
        ],
        ["5", "gift card"],
    ),
    "swap and move": (
        [
            ("modify_pending_order_address", {"order_id": "#W1", **MOVED}),
            (
                "modify_pending_order_items",
                {
                    "order_id": "#W1",
                    "item_ids": ["M1", "L1"],
                    "new_item_ids": ["M2", "L2"],
                    "payment_method_id": "card_1",
                },
            ),
        ],
        [],
    ),
    "asks": ([_find("Ada", "Novak")], ["60.00"]),
    "denied": ([], []),
    "handed over": ([("transfer_to_human_agents", {"summary": "angry"})], []),
    "refused": (
        [
            (
                "exchange_delivered_order_items",
                {
                    "order_id": "#W2",
                    "item_ids": ["L1", "L1"],
                    "new_item_ids": ["L2", "L2"],
                    "payment_method_id": "gift_1",
                },
            )
        ],
        [],
    ),
}
"""Expected actions and facts to be told, by what the customer wants."""


def _ticket(number: int, wish: str) -> Json:
    actions, facts = TICKETS[wish]
    return {
        "id": str(number),
        "user_scenario": {
            "instructions": {
                "task_instructions": ".",
                "reason_for_call": f"You want: {wish}.",
                "known_info": "You are Ada Novak in zip code 80279.",
                "unknown_info": None,
            }
        },
        "evaluation_criteria": {
            "actions": [
                {"name": name, "arguments": arguments} for name, arguments in actions
            ],
            "communicate_info": list(facts),
        },
    }


def retail_corpus(folder: Path) -> Path:
    """Write the corpus to a folder that is made."""
    folder.mkdir()
    tickets = [_ticket(number, wish) for number, wish in enumerate(TICKETS)]
    (folder / "db.json").write_text(json.dumps(database()))
    (folder / "tasks.json").write_text(json.dumps(tickets))
    (folder / "policy.md").write_text("# Policy\n\nBe {kind}.\n")
    return folder
