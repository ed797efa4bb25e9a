"""The retail desk: what it does to orders, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rlvr_envs.envs.sql_rest.services.catalogue import SERVICES, open_service
from rlvr_envs.envs.sql_rest.services.retail_sums import calculated
from rlvr_envs.importing.tau2_seed import script
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.templates import Template
from tests.importing.retail import ADDRESS, MOVED, database


class Desk:
    """The desk of one episode."""

    def __init__(self, clone: Clone) -> None:
        self.clone = clone
        self.service = open_service("retail", clone, {}, lambda: 0.0)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        text = json.dumps(body) if body is not None else ""
        answer = self.service.request(method, path, {}, text, 1)
        return answer.status, json.loads(answer.body)

    def swap(
        self, act: str, pairs: str, method: str, order: str = ""
    ) -> tuple[int, Any]:
        """Swap by words like ``L1>L2``; a modification is of #W1, the rest of #W2."""
        order = order or ("W1" if act == "modification" else "W2")
        items = [
            dict(zip(("item_id", "new_item_id"), pair.split(">"), strict=True))
            for pair in pairs.split()
        ]
        body = {"items": items, "payment_method_id": method}
        return self.ask("POST", f"/orders/{order}/{act}", body)

    def changed(self) -> dict[str, Any]:
        """End the episode and return what differs, by path: the new values."""
        self.service.close()
        self.clone.freeze()
        return {
            change.path.removeprefix("/rows/public."): {
                name: value
                for name, value in change.new.items()
                if change.old.get(name, ...) != value
            }
            for change in self.clone.diff().rows
        }


@pytest.fixture(scope="module")
def template(cluster: Cluster) -> Iterator[Template]:
    made = Template(cluster, Seed(script(database())))
    yield made
    made.close()


@pytest.fixture
def desk(cluster: Cluster, template: Template) -> Iterator[Desk]:
    clone = make_clone(cluster.filler(), template, Access(Rights.READ))
    desk = Desk(clone)
    yield desk
    desk.service.close()
    clone.close()


def test_customers_are_found_by_name_or_mail_in_either_case(desk: Desk) -> None:
    by_name = desk.ask("GET", "/customers?first_name=ADA&last_name=novak&zip=80279")
    by_mail = desk.ask("GET", "/customers?email=Ada%40example.com")

    assert by_name == by_mail == (200, {"user_id": "ada_1"})
    assert desk.ask("GET", "/customers?first_name=Ada&last_name=Novak")[0] == 422
    assert desk.ask("GET", "/customers?email=ada")[0] == 404


def test_a_customers_orders_stand_with_the_newest_last(desk: Desk) -> None:
    _, shown = desk.ask("GET", "/customers/ada_1")

    assert shown["orders"] == ["#W2", "#W1", "#W4", "#W5"]
    assert shown["payment_methods"][1] == {
        "payment_method_id": "gift_1",
        "kind": "gift_card",
        "balance": "12.00",
    }


@pytest.mark.parametrize("name", ["W2", "%23W2"])
def test_an_order_is_shown_whole(desk: Desk, name: str) -> None:
    status, shown = desk.ask("GET", f"/orders/{name}")

    assert status == 200
    assert shown["order_id"] == "#W2"
    assert [item["item_id"] for item in shown["items"]] == ["L1", "M1", "L1"]
    assert shown["items"][0]["price"] == "50.00"
    assert shown["items"][0]["options"] == {"kind": "L1"}
    assert shown["shipments"][0]["item_ids"] == ["L1", "M1", "L1"]
    assert shown["payments"][0]["amount"] == "105.00"
    assert "cancel_reason" not in shown


def test_a_cancelled_order_is_refunded_and_a_gift_card_at_once(desk: Desk) -> None:
    status, shown = desk.ask(
        "POST", "/orders/W4/cancellation", {"reason": "ordered by mistake"}
    )

    assert status == 200
    assert shown["status"] == "cancelled"
    assert desk.changed() == {
        "orders/%23W4": {"status": "cancelled", "cancel_reason": "ordered by mistake"},
        "payment_methods/gift_1": {"balance": "17.00"},
        "payments/%23W4,2": {
            "order_id": "#W4",
            "place": "2",
            "kind": "refund",
            "amount": "5.00",
            "payment_method_id": "gift_1",
        },
    }


def test_after_a_change_of_payment_the_new_method_alone_is_refunded(
    desk: Desk,
) -> None:
    desk.ask("PUT", "/orders/W4/payment", {"payment_method_id": "paypal_1"})
    desk.ask("POST", "/orders/W4/cancellation", {"reason": "no longer needed"})

    _, shown = desk.ask("GET", "/orders/W4")
    changed = desk.changed()

    paid = [(row["kind"], row["payment_method_id"]) for row in shown["payments"]]
    assert paid == [
        ("payment", "gift_1"),
        ("payment", "paypal_1"),
        ("refund", "gift_1"),
        ("refund", "paypal_1"),
    ]
    assert changed["payment_methods/gift_1"] == {"balance": "17.00"}


def test_a_difference_just_beyond_the_gift_card_is_refused(desk: Desk) -> None:
    status, _ = desk.swap("modification", "M1>M2 L1>L2", "gift_1")

    assert status == 409
    assert desk.changed() == {}


def test_a_difference_that_the_gift_card_covers_is_taken_from_it(desk: Desk) -> None:
    status, _ = desk.swap("modification", "L1>L2", "gift_1")

    assert status == 200
    assert desk.changed() == {
        "order_items/%23W1,1": {"item_id": "L2", "price": "60.00"},
        "orders/%23W1": {"status": "pending (item modified)"},
        "payment_methods/gift_1": {"balance": "2.00"},
        "payments/%23W1,2": {
            "order_id": "#W1",
            "place": "2",
            "kind": "payment",
            "amount": "10.00",
            "payment_method_id": "gift_1",
        },
    }


def test_several_items_get_each_its_own_price(desk: Desk) -> None:
    desk.swap("modification", "M1>M2 L1>L3", "card_1")

    changed = desk.changed()

    assert changed["order_items/%23W1,1"] == {"item_id": "L3", "price": "45.50"}
    assert changed["order_items/%23W1,2"] == {"item_id": "M2", "price": "7.10"}
    assert changed["payments/%23W1,2"]["kind"] == "refund"
    assert changed["payments/%23W1,2"]["amount"] == "2.40"


def test_a_modified_order_can_be_neither_modified_nor_cancelled(desk: Desk) -> None:
    desk.swap("modification", "L1>L2", "card_1")

    again = [
        desk.swap("modification", "M1>M2", "card_1"),
        desk.ask("PUT", "/orders/W1/address", MOVED),
        desk.ask("PUT", "/orders/W1/payment", {"payment_method_id": "paypal_1"}),
        desk.ask("POST", "/orders/W1/cancellation", {"reason": "no longer needed"}),
    ]

    assert {status for status, _ in again} == {409}


def test_an_exchange_is_taken_down_and_nothing_is_paid_yet(desk: Desk) -> None:
    status, _ = desk.swap("exchange", "L1>L2", "gift_1")

    assert status == 200
    assert desk.changed() == {
        "orders/%23W2": {
            "status": "exchange requested",
            "exchange_payment_method_id": "gift_1",
            "exchange_price_difference": "10.00",
        },
        "replacement_items/%23W2,1": {
            "order_id": "#W2",
            "place": "1",
            "item_id": "L2",
        },
        "returned_items/%23W2,1": {"order_id": "#W2", "line": "1"},
    }


@pytest.mark.parametrize(
    ("act", "order", "orders_of_pairs"),
    [
        ("exchange", "W2", ("L1>L2 M1>M2 L1>L3", "M1>M2 L1>L3 L1>L2")),
        ("modification", "W5", ("L1>L2 L1>L3", "L1>L3 L1>L2")),
    ],
)
def test_how_a_request_orders_its_items_leaves_no_trace(
    cluster: Cluster,
    template: Template,
    act: str,
    order: str,
    orders_of_pairs: tuple[str, str],
) -> None:
    found = []
    for pairs in orders_of_pairs:
        clone = make_clone(cluster.filler(), template, Access(Rights.READ))
        desk = Desk(clone)
        assert desk.swap(act, pairs, "card_1", order)[0] == 200
        found.append(desk.changed())
        clone.close()

    assert found[0] == found[1]
    assert len(found[0]) >= 4


def test_a_return_is_refunded_to_a_gift_card_or_the_first_payment(desk: Desk) -> None:
    body = {"item_ids": ["L1", "L1"], "payment_method_id": "card_1"}
    refused = desk.ask("POST", "/orders/W2/return", body)
    status, shown = desk.ask(
        "POST", "/orders/W2/return", {**body, "payment_method_id": "gift_1"}
    )

    assert refused[0] == 409
    assert status == 200
    assert shown["returned_items"] == ["L1", "L1"]
    assert desk.changed() == {
        "orders/%23W2": {
            "status": "return requested",
            "return_payment_method_id": "gift_1",
        },
        "returned_items/%23W2,1": {"order_id": "#W2", "line": "1"},
        "returned_items/%23W2,3": {"order_id": "#W2", "line": "3"},
    }


@pytest.mark.parametrize(
    ("act", "pairs", "method", "status"),
    [
        ("exchange", "L1>M1", "card_1", 409),  # another product
        ("exchange", "L1>L1", "card_1", 409),  # the same item
        ("exchange", "L1>L4", "card_1", 409),  # not available
        ("exchange", "L2>L1", "card_1", 409),  # not of the order
        ("exchange", "M1>M2 M1>M2", "card_1", 409),  # only one came
        ("exchange", "L1>L9", "card_1", 404),
        ("exchange", "L1>L2", "card_2", 404),  # another customer's
        ("exchange", "L1>L2 L1>L2", "gift_1", 409),  # not covered
        ("modification", "L1>L4", "card_1", 409),
        ("modification", "L1>L2", "card_2", 404),
    ],
)
def test_what_policy_does_not_allow_is_refused_and_leaves_nothing(
    desk: Desk, act: str, pairs: str, method: str, status: int
) -> None:
    assert desk.swap(act, pairs, method)[0] == status
    assert desk.changed() == {}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/orders/W3/cancellation", {"reason": "no longer needed"}, 409),
        ("POST", "/orders/W1/cancellation", {"reason": "bored"}, 422),
        ("POST", "/orders/W9/cancellation", {"reason": "no longer needed"}, 404),
        ("PUT", "/orders/W2/address", ADDRESS, 409),
        ("PUT", "/orders/W1/address", {**ADDRESS, "status": "delivered"}, 422),
        ("PUT", "/orders/W1/payment", {"payment_method_id": "card_1"}, 409),
        ("PUT", "/orders/W1/payment", {"payment_method_id": "gift_1"}, 409),
        ("PUT", "/orders/W1/payment", {"payment_method_id": "card_2"}, 404),
        ("PUT", "/customers/eve_3/address", ADDRESS, 404),
        ("POST", "/orders/W2/return", {"item_ids": [], "payment_method_id": "x"}, 422),
        (
            "POST",
            "/orders/W1/return",
            {"item_ids": ["L1"], "payment_method_id": "card_1"},
            409,
        ),
        ("POST", "/transfers", {"summary": ""}, 422),
    ],
)
def test_other_acts_are_refused_likewise(
    desk: Desk, method: str, path: str, body: Any, status: int
) -> None:
    assert desk.ask(method, path, body)[0] == status
    assert desk.changed() == {}


def test_addresses_are_changed_as_a_whole(desk: Desk) -> None:
    desk.ask("PUT", "/orders/W1/address", MOVED)
    desk.ask("PUT", "/customers/bob_2/address", MOVED)

    moved = {"address1": "2 Short Street", "zip": "80280"}
    assert desk.changed() == {"orders/%23W1": moved, "customers/bob_2": moved}


def test_a_transfer_is_on_record(desk: Desk) -> None:
    status, _ = desk.ask("POST", "/transfers", {"summary": "angry"})

    assert status == 200
    (row,) = desk.changed().values()
    assert row == {"transfer_id": "transfer_0001", "summary": "angry"}


def test_products_and_items_are_shown(desk: Desk) -> None:
    _, listed = desk.ask("GET", "/products")
    _, lamp = desk.ask("GET", "/products/P-Lamp")
    _, item = desk.ask("GET", "/items/L4")

    assert [row["name"] for row in listed["products"]] == ["Lamp", "Mug"]
    assert lamp["variants"][3] == item
    assert item["available"] is False
    assert item["price"] == "10.00"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("3131.1 + 4777.75 + 367.38", "8276.23"),
        (" 135.24 - 153.23", "-17.99"),
        ("0.1 + 0.2 - .3", "0.00"),
        ("-(2 + 3) * 4 / 3", "-6.67"),
        ("1.", "1.00"),
    ],
)
def test_sums_are_exact_to_the_cent(expression: str, value: str) -> None:
    assert calculated(expression) == value


@pytest.mark.parametrize(
    "expression", ["", "2 **", "2 ** 9", "9 // 2", "1 / 0", "x", "1e9", "(" * 150]
)
def test_what_is_no_sum_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        calculated(expression)


def test_its_description_fits_into_one_observation(desk: Desk) -> None:
    status, told = desk.ask("GET", "/openapi.json")

    body = told["components"]["schemas"]["SwapsBody"]
    assert status == 200
    assert len(json.dumps(told)) < 8000
    assert body["required"] == ["items", "payment_method_id"]
    assert told["paths"]["/orders/{order_id}/return"]["post"]["operationId"]
    assert told["info"]["title"] == "Retail desk"


def test_every_operation_says_whether_it_looks(desk: Desk) -> None:
    writes = {row.name for row in SERVICES["retail"].operations if not row.reads}

    assert writes == set(SERVICES["retail"].effects)
