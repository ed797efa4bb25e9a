from __future__ import annotations

import pytest

from rlvr_envs.verifiers.qualified import flaw

GOOD = [
    "SELECT 1 AS one",
    "SELECT status FROM public.orders WHERE id = 3",
    'SELECT o.status FROM ONLY "public"."orders" AS o',
    "SELECT * FROM public.a JOIN public.b USING (id) LEFT JOIN shop.c ON c.id = a.id",
    "SELECT * FROM public.a, public.b, LATERAL (SELECT 1 FROM public.c) AS d",
    "SELECT * FROM (SELECT id FROM public.a) AS x, public.b",
    "SELECT * FROM (public.a JOIN public.b USING (id))",
    "WITH late AS (SELECT 1 FROM public.a) SELECT * FROM late",
    "WITH RECURSIVE t (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t), "
    "u AS MATERIALIZED (SELECT 1) SELECT * FROM t, u",
    "SELECT extract(year FROM o.day), trim(both FROM o.note) FROM public.orders o",
    "SELECT 1 FROM public.a WHERE x IS NOT DISTINCT FROM y",
    "SELECT n FROM generate_series(1, 3) AS n",
    "SELECT count(*) FROM public.a WHERE id IN (SELECT id FROM public.b)",
    "SELECT 'FROM orders' FROM public.a -- FROM orders\n",
    "SELECT 1 FROM public.a WHERE note LIKE '%%x' /* FROM orders */",
    "SELECT 1 FROM public.a ORDER BY b, c",
    "SELECT a, b FROM public.a GROUP BY a, b",
    "TABLE public.orders",
    "SELECT 1 FROM public.a UNION SELECT 2 FROM public.b",
]

BAD = {
    "SELECT status FROM orders": "orders is not qualified",
    'SELECT status FROM "orders"': "is not qualified",
    "SELECT 1 FROM public.a, orders": "orders is not qualified",
    "SELECT 1 FROM public.a JOIN orders USING (id)": "orders is not qualified",
    "SELECT 1 FROM public.a WHERE id IN (SELECT id FROM orders)": "orders",
    "SELECT 1 FROM (SELECT 1 FROM orders) AS x": "orders is not qualified",
    "SELECT 1 FROM ONLY orders": "orders is not qualified",
    "SELECT 1 FROM (orders JOIN public.b USING (id))": "orders is not qualified",
    "WITH x AS (SELECT 1 FROM orders) SELECT * FROM x": "orders is not qualified",
    "SELECT 1 FROM public.a UNION SELECT 2 FROM orders": "orders is not qualified",
    "TABLE orders": "orders is not qualified",
    "SELECT 1; SELECT 2": "one statement",
    "DELETE FROM public.orders": "begins with",
    "WITH x AS (DELETE FROM public.a RETURNING 1) SELECT * FROM x": "DELETE writes",
    "SELECT 1 INTO public.b FROM public.a": "INTO writes",
    "": "begins with",
    "SELECT 1 WHERE 'a' LIKE 'x%'": "percent",
    "SELECT %(id)s": "'id' stands",
}


@pytest.mark.parametrize("statement", GOOD)
def test_a_qualified_reading_statement_is_taken(statement: str) -> None:
    assert flaw(statement, {}) == ""


@pytest.mark.parametrize(("statement", "told"), BAD.items())
def test_any_other_is_refused_with_the_remedy(statement: str, told: str) -> None:
    assert told in flaw(statement, {})


def test_values_and_placeholders_name_each_other() -> None:
    assert flaw("SELECT %(id)s", {"id": 3}) == ""
    assert "'no'" in flaw("SELECT %(id)s", {"id": 3, "no": 1})
