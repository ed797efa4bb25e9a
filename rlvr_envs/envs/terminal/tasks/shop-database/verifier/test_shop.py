import json
import shutil
import sqlite3
from pathlib import Path

import pytest

HIDDEN = json.loads(Path("/verifier/hidden.json").read_text())


@pytest.fixture
def base(candidate, tmp_path):
    """A copy of the database, with what is still in its journal."""
    for suffix in ("", "-wal", "-journal"):
        if candidate.exists(f"/app/shop.db{suffix}"):
            shutil.copyfile(candidate.path(f"/app/shop.db{suffix}"), tmp_path / f"shop.db{suffix}")
    assert (tmp_path / "shop.db").stat().st_size < 20_000_000
    connection = sqlite3.connect(tmp_path / "shop.db")
    yield connection
    connection.close()


def test_the_file_is_sound(base):
    assert base.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_tables_and_indices_are_as_asked(base):
    made = [(kind, name) for kind, name in base.execute("SELECT type, name FROM main.sqlite_schema")]
    kinds = {kind for kind, _ in made}
    tables = {name for kind, name in made if kind == "table" and not name.startswith("sqlite_")}
    declared = [sql for (sql,) in base.execute("SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]

    assert kinds <= {"table", "index"}
    assert tables == set(HIDDEN["state"])
    assert sorted(" ".join(sql.split()) for sql in declared) == sorted(HIDDEN["schema"][:4])


@pytest.mark.parametrize(("index", "table", "column"), [("one_ref", "payments", "ref"), ("one_email", "customers", "email")])
def test_an_index_is_unique(base, index, table, column):
    rows = {row[1]: row for row in base.execute(f"PRAGMA index_list({table})")}
    columns = [row[2] for row in base.execute(f"PRAGMA index_info({index})")]

    assert rows[index][2] == 1
    assert rows[index][4] == 0, "a partial index does not hold for all rows"
    assert columns == [column]


@pytest.mark.parametrize("table", ["customers", "orders", "order_lines", "payments"])
def test_rows_are_as_asked(base, table):
    rows = [list(row) for row in base.execute(f"SELECT * FROM main.{table} NOT INDEXED ORDER BY id")]

    assert rows == HIDDEN["state"][table]
    assert all(type(a) is type(b) for given, wanted in zip(rows, HIDDEN["state"][table]) for a, b in zip(given, wanted))


def test_the_other_index_is_still_there(base):
    assert "lines_by_order" in {row[1] for row in base.execute("PRAGMA index_list(order_lines)")}


def test_what_is_owed(candidate):
    lines = candidate.read_text("/app/owed.csv").split()

    assert lines == [f"{order},{cents}" for order, cents in HIDDEN["owed"]]
