"""A seed is a script; its template is found by its digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.errors import SnapshotError
from rlvr_envs.sandbox.postgres.clone import make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.roles import Access
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.templates import Template
from tests.corpora import corpus

CHINOOK, MISSING = corpus("chinook")

DUMP = r"""
/*
   Create database
   of this name
*/
DROP DATABASE IF EXISTS elsewhere;
CREATE DATABASE elsewhere;
\connect elsewhere
CREATE TABLE t (a int, b text);
COPY public.t (a, b) FROM stdin;
1	drop database x;
2	\N
\.
CREATE UNLOGGED TABLE fast (a int);
INSERT INTO fast VALUES (1);
"""


def numbered(seed: int) -> str:
    return f"CREATE TABLE t AS SELECT {seed} AS a;"


def test_the_same_script_is_the_same_template(cluster: Cluster) -> None:
    first = Template(cluster, Seed.generated(numbered, 1))
    again = Template(cluster, Seed("CREATE TABLE t AS SELECT 1 AS a;"))
    other = Template(cluster, Seed.generated(numbered, 2))

    assert first.name == again.name != other.name
    assert first.digest == again.digest
    for template in (first, other):
        template.drop()
    cluster.settle()
    assert first.name not in cluster.databases()


def test_a_plain_dump_loads_without_its_database(cluster: Cluster) -> None:
    template = Template(cluster, Seed(DUMP))
    clone = make_clone(cluster.filler(), template, Access())
    agent = clone.open_agent()

    rows = agent.execute("SELECT a, b FROM t ORDER BY a").fetchall()
    agent.execute("UPDATE fast SET a = 2")

    assert rows == [(1, "drop database x;"), (2, None)]
    assert [change.table for change in clone.ledger().changes] == ["public.fast"]
    clone.close()
    template.drop()
    cluster.settle()


def test_a_failing_script_is_told_with_its_line_and_leaves_nothing(
    cluster: Cluster,
) -> None:
    cluster.settle()
    before = cluster.databases()

    with pytest.raises(SnapshotError, match=r"42P01.*line 2"):
        Template(cluster, Seed("SELECT 1;\nINSERT INTO nowhere VALUES (1);"))

    cluster.settle()
    assert cluster.databases() == before


def test_a_file_that_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"none\.sql"):
        Seed.from_file(tmp_path / "none.sql")


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_chinook_loads_and_serves_as_a_snapshot(cluster: Cluster) -> None:
    template = Template(cluster, Seed.from_file(CHINOOK / "Chinook_PostgreSql.sql"))
    clone = make_clone(cluster.filler(), template, Access())
    agent = clone.open_agent()

    longest = agent.execute(
        "SELECT t.name FROM track AS t JOIN genre AS g USING (genre_id) "
        "WHERE g.name = 'Rock' ORDER BY milliseconds DESC LIMIT 1"
    ).fetchone()
    agent.execute("UPDATE invoice SET total = total + 1 WHERE invoice_id = 5")
    clone.freeze()

    assert longest == ("Dazed And Confused",)
    assert [change.old["invoice_id"] for change in clone.diff().rows] == ["5"]
    clone.close()
    template.drop()
    cluster.settle()
