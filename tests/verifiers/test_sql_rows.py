from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.relational import DatabaseDiff, RowChange
from rlvr_envs.verifiers.sql_rows import SqlRows
from rlvr_envs.verifiers.verifier import Findings
from tests.verifiers.builders import check, context
from tests.verifiers.databases import delete, facts, insert, state, update

ORDERS = "public.orders"
OPEN = {"id": "3", "status": "open", "total": "30.00", "seen": None}
SHIPPED = update(ORDERS, OPEN, status="shipped")
SHIP = {
    "table": ORDERS,
    "kind": "update",
    "key": {"id": 3},
    "set": {"status": "shipped"},
}


def found(
    folder: Path, changes: tuple[RowChange, ...], *wanted: Any, **options: Any
) -> Findings:
    rows = options.pop("rows", list(wanted))
    spec = check("sql_rows", rows=rows, **options)
    hidden = {"id": 3, "rows": [SHIP]}
    given = context(folder, folder, hidden=hidden)
    return SqlRows(spec).verify(state(facts(*changes)), given)


def reason(found: Findings) -> str:
    return found.checks[0].reason


def test_exactly_the_wanted_row_holds(tmp_path: Path) -> None:
    assert reason(found(tmp_path, (SHIPPED,), SHIP)) == ""
    assert reason(found(tmp_path, (SHIPPED,), rows={"hidden": "rows"})) == ""
    hidden = {**SHIP, "key": {"id": {"hidden": "id"}}}
    assert reason(found(tmp_path, (SHIPPED,), hidden)) == ""


@pytest.mark.parametrize(
    "change",
    [
        update(ORDERS, OPEN, status="shipped "),
        update(ORDERS, OPEN, status=None),
        update(ORDERS, OPEN, status="shipped", total="NaN"),
        update(ORDERS, OPEN, status="shipped", seen="now"),
        update(ORDERS, {**OPEN, "id": "4"}, status="shipped"),
        update("public.o2", OPEN, status="shipped"),
        delete(ORDERS, **OPEN),
        insert(ORDERS, **{**OPEN, "status": "shipped"}),
    ],
)
def test_a_near_miss_does_not(tmp_path: Path, change: RowChange) -> None:
    assert reason(found(tmp_path, (change,), SHIP)) != ""


def test_a_row_that_nobody_asked_for_is_collateral(tmp_path: Path) -> None:
    other = update(ORDERS, {**OPEN, "id": "4"}, status="shipped")

    findings = found(tmp_path, (SHIPPED, other), SHIP)

    assert findings.collateral == ("/rows/public.orders/4",)
    assert "/rows/public.orders/4" in reason(findings)


def test_a_wrong_value_of_the_wanted_row_is_no_collateral(tmp_path: Path) -> None:
    findings = found(tmp_path, (update(ORDERS, OPEN, status="lost"),), SHIP)

    assert findings.collateral == ()
    assert "status differs" in reason(findings)


def test_a_free_column_may_be_anything(tmp_path: Path) -> None:
    both = update(ORDERS, OPEN, status="shipped", seen="now")

    assert reason(found(tmp_path, (both,), {**SHIP, "free": ["seen"]})) == ""


def test_an_optional_row_may_be_missing_but_not_wrong(tmp_path: Path) -> None:
    may = {**SHIP, "optional": True}

    assert reason(found(tmp_path, (), may)) == ""
    assert reason(found(tmp_path, (SHIPPED,), may)) == ""
    assert reason(found(tmp_path, (update(ORDERS, OPEN, status="x"),), may)) != ""


def test_tables_of_others_are_passed_over(tmp_path: Path) -> None:
    log = insert("public.log", id="1")

    assert reason(found(tmp_path, (SHIPPED, log), SHIP, besides=["public.log"])) == ""


def test_each_wanted_row_takes_a_row_of_its_own(tmp_path: Path) -> None:
    line = {"table": "public.lines", "kind": "insert"}
    vague, exact = {**line, "set": {"n": 1}}, {**line, "set": {"n": 1, "what": "tax"}}
    made = (
        insert("public.lines", id="1", n="1", what="tax"),
        insert("public.lines", id="2", n="1", what="fee"),
    )

    assert reason(found(tmp_path, made, vague, exact)) == ""
    assert reason(found(tmp_path, made[:1], vague, exact)) != ""


def test_rows_that_were_not_all_read_are_no_proof(tmp_path: Path) -> None:
    spec = check("sql_rows", rows=[SHIP])
    cut = facts(SHIPPED, diff=DatabaseDiff((SHIPPED,), complete=False))

    findings = SqlRows(spec).verify(state(cut), context(tmp_path, tmp_path))

    assert "more rows differ" in reason(findings)
