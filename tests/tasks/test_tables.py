"""What generators of databases say of rows."""

from __future__ import annotations

from decimal import Decimal

import pytest

from rlvr_envs.tasks.tables import Rows, Table, literal

ORDERS = Table("public.orders", ("id", "status", "total"))
LINES = Table("public.lines", ("order_id", "line", "sku"), key=2)


def test_rows_become_one_insert() -> None:
    rows: Rows = [[1, "it's \\ ready", Decimal("4.20")], [2, None, Decimal("NaN")]]

    assert ORDERS.inserts(rows) == (
        "INSERT INTO public.orders (id, status, total) VALUES\n"
        "(1, 'it''s \\ ready', 4.20),\n"
        "(2, NULL, 'NaN'::numeric);\n"
    )


def test_no_rows_become_no_statement() -> None:
    assert ORDERS.inserts([]) == ""


def test_an_update_names_only_what_differs() -> None:
    before: Rows = [[1, "open", Decimal("1.00")], [2, "open", Decimal("2.00")]]
    after: Rows = [[2, "open", Decimal("2.50")], [1, "open", Decimal("1.00")]]

    assert ORDERS.differences(before, after) == [
        {
            "table": "public.orders",
            "kind": "update",
            "key": {"id": 2},
            "set": {"total": {"decimal": "2.50"}},
        }
    ]


def test_rows_come_and_go_by_their_whole_key() -> None:
    found = LINES.differences([[1, 1, "a"], [1, 2, "b"]], [[1, 1, "a"], [2, 2, "b"]])

    assert found == [
        {
            "table": "public.lines",
            "kind": "delete",
            "key": {"order_id": 1, "line": 2},
        },
        {
            "table": "public.lines",
            "kind": "insert",
            "key": {"order_id": 2, "line": 2},
            "set": {"sku": "b"},
        },
    ]


def test_two_rows_of_one_key_are_refused() -> None:
    with pytest.raises(ValueError, match="same key"):
        ORDERS.differences([[1, "a", 1], [1, "b", 1]], [])


def test_a_large_number_is_written_without_an_exponent() -> None:
    assert literal(Decimal("1E+3")) == "1000"
