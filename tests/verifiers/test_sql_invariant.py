from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from rlvr_envs.errors import VerifierError
from rlvr_envs.state import QueryResult
from rlvr_envs.verifiers.sql_invariant import SqlInvariant
from tests.verifiers.builders import ToyRunner, check, context
from tests.verifiers.databases import ToyQueries, facts, rows, state

STATEMENT = "SELECT id, status FROM public.orders"
TWO = rows({"id": 1, "status": "open"}, {"id": 2, "status": "shipped"})


def problem(
    folder: Path,
    runner: ToyRunner,
    expect: dict[str, Any],
    *,
    hidden: dict[str, Any] | None = None,
    **options: Any,
) -> str:
    spec = check("sql_invariant", statement=STATEMENT, expect=expect, **options)
    given = context(folder, folder, hidden=hidden, runner=runner)
    (found,) = SqlInvariant(spec).verify(state(facts()), given).checks
    assert found.passed == (found.reason == "")
    return found.reason


@pytest.mark.parametrize(
    "expect",
    [
        {"rows": [[2, "shipped"], [1, "open"]]},
        {"rows": [{"id": 1, "status": "open"}, {"status": "shipped", "id": 2}]},
        {"rows": {"hidden": "rows"}},
        {"rows": [[1, "open"], [{"hidden": "id"}, "shipped"]]},
    ],
)
def test_the_wanted_rows_in_any_order_hold(
    tmp_path: Path, expect: dict[str, Any]
) -> None:
    hidden = {"rows": [[1, "open"], [2, "shipped"]], "id": 2}

    assert problem(tmp_path, TWO, expect, hidden=hidden) == ""


@pytest.mark.parametrize(
    "expect",
    [
        {"rows": [[1, "open"]]},
        {"rows": [[1, "open"], [2, "shipped "]]},
        {"rows": [[1, "open"], [1, "open"]]},
        {"rows": [[1, "open"], ["2", "shipped"]]},
        {"rows": [[1, "open"], {"id": 2}]},
        {"empty": True},
        {"scalar": 1},
    ],
)
def test_other_rows_do_not(tmp_path: Path, expect: dict[str, Any]) -> None:
    assert problem(tmp_path, TWO, expect) != ""


def test_an_order_holds_where_it_is_asked_for(tmp_path: Path) -> None:
    turned = {"rows": [[2, "shipped"], [1, "open"]]}
    straight = {"rows": [[1, "open"], [2, "shipped"]]}

    assert problem(tmp_path, TWO, straight, in_order=True) == ""
    assert problem(tmp_path, TWO, turned, in_order=True) == "row 1 differs"


def test_a_scalar_is_one_row_of_one_column(tmp_path: Path) -> None:
    assert problem(tmp_path, rows({"n": Decimal("2")}), {"scalar": 2}) == ""
    assert problem(tmp_path, rows({"n": Decimal("NaN")}), {"scalar": 2}) == "n differs"
    assert problem(tmp_path, rows({"n": 2}, {"n": 2}), {"scalar": 2}) != ""


def test_nothing_is_nothing(tmp_path: Path) -> None:
    assert problem(tmp_path, rows(), {"empty": True}) == ""


def test_values_reach_the_query_with_hidden_ones_looked_up(tmp_path: Path) -> None:
    runner = ToyQueries()
    values = {"id": {"hidden": "order.id"}, "word": "open"}

    problem(
        tmp_path, runner, {"empty": True}, hidden={"order": {"id": 7}}, values=values
    )

    assert runner.asked == [(STATEMENT, {"id": 7, "word": "open"})]


def test_a_query_that_the_episode_made_fail_is_a_failed_check(tmp_path: Path) -> None:
    runner = ToyQueries(answer=QueryResult(problem="statement timeout"))

    assert "statement timeout" in problem(tmp_path, runner, {"empty": True})


def test_a_world_without_a_database_is_no_score(tmp_path: Path) -> None:
    with pytest.raises(VerifierError, match="reads no database"):
        problem(tmp_path, ToyRunner(), {"empty": True})


class Wrong(ToyQueries):
    """The statement fails on the untouched database too."""

    @override
    def query(self, statement: str, values: Mapping[str, Any]) -> QueryResult:
        raise VerifierError("no such table")


def test_a_statement_that_is_always_wrong_is_no_score(tmp_path: Path) -> None:
    with pytest.raises(VerifierError, match="no such table"):
        problem(tmp_path, Wrong(), {"empty": True})


def test_what_the_episode_must_make_may_be_missing_before(tmp_path: Path) -> None:
    told = problem(tmp_path, Wrong(), {"empty": True}, new_objects=True)

    assert "no such table" in told
