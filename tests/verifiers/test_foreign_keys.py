from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.relational import CatalogueChange, DatabaseDiff
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.templates import Template
from rlvr_envs.state import QueryResult
from rlvr_envs.verifiers.foreign_keys import ForeignKeys
from tests.databases import cluster
from tests.verifiers.builders import ToyRunner, check, context
from tests.verifiers.databases import GraderQueries, facts, facts_of_clone, rows, state

__all__ = ["cluster"]

SEED = Seed("""
CREATE TABLE "or%ders" (id int, part int, PRIMARY KEY (id, part));
INSERT INTO "or%ders" VALUES (1, 1), (2, 1);
CREATE TABLE lines (id int PRIMARY KEY, order_id int, part int,
  CONSTRAINT of_order FOREIGN KEY (order_id, part) REFERENCES "or%ders" (id, part));
INSERT INTO lines VALUES (1, 1, 1), (2, NULL, 9);
""")


@pytest.fixture(scope="module")
def template(cluster: Cluster) -> Iterator[Template]:
    made = Template(cluster, SEED)
    yield made
    made.close()


@pytest.fixture
def clone(cluster: Cluster, template: Template) -> Iterator[Clone]:
    made = make_clone(cluster.filler(), template, Access(Rights.WRITE))
    yield made
    made.close()
    cluster.settle()


def reason(folder: Path, clone: Clone, *statements: str, **options: Any) -> str:
    for statement in ("SET search_path = public", *statements):
        clone.admin.execute(statement.encode())
    found = state(facts_of_clone(clone))
    given = context(folder, folder, runner=GraderQueries(clone=clone))
    return ForeignKeys(check("foreign_keys", **options)).verify(found, given).checks[0].reason  # fmt: skip


KEY = {"table": "public.lines", "columns": ["order_id", "part"]}


def test_keys_that_hold_pass(tmp_path: Path, clone: Clone) -> None:
    honest = "INSERT INTO lines VALUES (3, 2, 1), (4, 7, NULL)"
    required = [{**KEY, "references": "public.or%ders"}]

    assert reason(tmp_path, clone, honest, required=required) == ""


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (["ALTER TABLE lines DROP CONSTRAINT of_order"], "was removed"),
        (
            [
                "ALTER TABLE lines DROP CONSTRAINT of_order",
                "ALTER TABLE lines ADD CONSTRAINT of_order FOREIGN KEY (order_id, part)"
                ' REFERENCES "or%ders" (id, part) NOT VALID',
            ],
            "not validated",
        ),
        (
            [
                "SET session_replication_role = replica",
                "INSERT INTO lines VALUES (3, 8, 1)",
            ],
            "does not hold",
        ),
    ],
)
def test_a_key_that_is_lost_unchecked_or_broken_fails(
    tmp_path: Path, clone: Clone, statements: list[str], told: str
) -> None:
    assert told in reason(tmp_path, clone, *statements)


def test_a_key_that_must_be_added_is_missed(tmp_path: Path, clone: Clone) -> None:
    required = [{**KEY, "columns": ["part", "order_id"], "references": "public.x"}]

    assert "no such key" in reason(tmp_path, clone, required=required)


def test_a_lost_key_is_seen_without_a_query(tmp_path: Path) -> None:
    lost = CatalogueChange("constraint", "public.k of public.l", "FOREIGN KEY (x)")
    given = context(tmp_path, tmp_path, runner=rows())

    spec = check("foreign_keys")
    found = ForeignKeys(spec).verify(state(facts(diff=DatabaseDiff((), (lost,)))), given)  # fmt: skip

    assert "was removed" in found.checks[0].reason


class Lite(ToyRunner):
    """The other engine, as a grader opens it."""

    def __init__(self, *statements: str) -> None:
        super().__init__()
        self._opened = sqlite3.connect(":memory:")
        self._opened.row_factory = sqlite3.Row
        self._opened.executescript(";".join(statements))

    def query(self, statement: str, values: Mapping[str, Any]) -> QueryResult:
        found = self._opened.execute(statement).fetchall()
        return QueryResult(tuple(dict(row) for row in found))


TABLES = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, part INT, UNIQUE (id, part))",
    "CREATE TABLE lines (id INT, order_id INT, part INT,"
    " FOREIGN KEY (order_id, part) REFERENCES orders (id, part))",
    "INSERT INTO orders VALUES (1, 1)",
)
OF_LINES = {**KEY, "table": "main.lines", "references": "main.orders"}


def lite(folder: Path, *statements: str, **options: Any) -> str:
    diff = options.pop("diff", DatabaseDiff())
    given = context(folder, folder, runner=Lite(*TABLES, *statements))
    found = state(facts(diff=diff, engine="sqlite"))
    return ForeignKeys(check("foreign_keys", **options)).verify(found, given).checks[0].reason  # fmt: skip


def test_the_other_engines_keys_are_asked_too(tmp_path: Path) -> None:
    lost = CatalogueChange(
        "relation", "main.lines", TABLES[1], "CREATE TABLE lines (id)"
    )

    assert (
        lite(tmp_path, "INSERT INTO lines VALUES (1, 1, 1)", required=[OF_LINES]) == ""
    )
    assert "refers to none" in lite(tmp_path, "INSERT INTO lines VALUES (1, 9, 1)")
    assert "no such key" in lite(tmp_path, required=[{**OF_LINES, "columns": ["part"]}])
    assert "refers to less" in lite(tmp_path, diff=DatabaseDiff((), (lost,)))
