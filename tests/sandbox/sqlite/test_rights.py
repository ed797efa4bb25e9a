"""An agent changes rows where it may, and can do nothing else."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from rlvr_envs.sandbox.sqlite.clone import Bounds
from rlvr_envs.sandbox.sqlite.inside.authority import Authority
from tests.sqlite_shop import MakeClone, is_clean, refused, rows

READ_ONLY_ATTACKS = (
    "COMMIT; UPDATE orders SET status='paid'; SELECT 1",
    "/*hi*/ COMMIT; DELETE FROM orders",
    "UPDATE orders SET total=0",
    "INSERT INTO notes VALUES ('x')",
    "WITH x AS (SELECT 1) DELETE FROM orders",
    "REPLACE INTO orders VALUES (1, 'paid', 0)",
    "CREATE TEMP TABLE orders (id int)",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "UPDATE sqlite_sequence SET seq = 9",
)
WRITER_ATTACKS = (
    "ATTACH '{file}' AS other",
    "ATTACH ':memory:' AS other",
    "ATTACH 'file:{file}?mode=rwc' AS main2",
    "VACUUM",
    "VACUUM INTO '{file}'",
    "SELECT load_extension('{file}')",
    "SELECT writefile('{file}', 'x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT fts3_tokenizer('simple')",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA journal_mode",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA database_list",
    "PRAGMA user_version = 7",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA ignore_check_constraints = ON",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA hard_heap_limit = 0",
    "PRAGMA max_page_count = 1000000000",
    "SELECT * FROM pragma_database_list",
    "UPDATE sqlite_schema SET sql = ''",
    "INSERT INTO sqlite_master VALUES ('view', 'v', 'v', 0, 'CREATE VIEW v AS SELECT 1')",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TABLE t (a)",
    "CREATE TRIGGER t AFTER UPDATE ON orders BEGIN DELETE FROM notes; END",
    "CREATE TEMP TRIGGER t AFTER UPDATE ON orders BEGIN DELETE FROM notes; END",
    "CREATE VIRTUAL TABLE v USING fts5(a)",
    "CREATE VIRTUAL TABLE temp.v USING fts5(a)",
    "CREATE INDEX i ON orders (total)",
    "DROP TABLE orders",
    "DROP INDEX lines_of",
    "ALTER TABLE orders RENAME TO o_",
    "ALTER TABLE orders ADD COLUMN x",
    "ANALYZE",
    "REINDEX",
)


def test_a_read_only_agent_can_write_nothing(clone_of: MakeClone) -> None:
    clone = clone_of("read")

    for lasting in (True, False):
        for attack in READ_ONLY_ATTACKS:
            assert refused(clone, attack, lasting=lasting), attack
            assert rows(clone, "SELECT count(*) FROM orders") == [["20"]]
    assert is_clean(clone)


def test_the_looking_session_writes_nothing_whatever_the_rights(
    clone_of: MakeClone,
) -> None:
    clone = clone_of("define")

    for attack in READ_ONLY_ATTACKS:
        assert refused(clone, attack, lasting=False), attack
    assert is_clean(clone)


def test_a_writing_agent_is_denied_every_way_around_the_audit(
    clone_of: MakeClone, tmp_path: Path
) -> None:
    clone = clone_of()
    file = tmp_path / "made"

    for attack in WRITER_ATTACKS:
        assert refused(clone, attack.format(file=file)), attack
        assert rows(clone, "SELECT 1") == [["1"]]
    assert not file.exists()
    assert is_clean(clone)


def test_a_helper_may_have_an_index(clone_of: MakeClone) -> None:
    clone = clone_of()

    for statement in (
        "CREATE TEMP TABLE helper AS SELECT id FROM orders",
        "CREATE INDEX temp.by_id ON helper (id)",
        "REINDEX temp.by_id",
        "DROP TABLE temp.helper",
    ):
        assert clone.run(statement, Bounds())["error"] is None, statement
    assert is_clean(clone)


def test_what_was_denied_is_told(clone_of: MakeClone) -> None:
    clone = clone_of()

    answer = clone.run("ATTACH ':memory:' AS x", Bounds())

    assert answer["error"] == {
        "state": "42501",
        "message": "permission denied to ATTACH a file",
    }


def test_who_may_define_defines_what_the_task_names(clone_of: MakeClone) -> None:
    clone = clone_of("define", "main.notes")

    rows(clone, "ALTER TABLE notes ADD COLUMN at TEXT")
    rows(clone, "CREATE TABLE fresh (a)")
    rows(clone, "CREATE VIEW seen AS SELECT * FROM orders")

    for attack in (
        "ALTER TABLE orders ADD COLUMN x",
        "DROP TABLE orders",
        "DROP INDEX lines_of",
        "CREATE TRIGGER t AFTER UPDATE ON orders BEGIN DELETE FROM notes; END",
        "ALTER TABLE ORDERS RENAME TO o_",
    ):
        assert refused(clone, attack) == "42501", attack
    clone.freeze()
    changed = {change.path for change in clone.diff().catalogue}
    assert changed == {
        "/catalogue/table/main.notes",
        "/catalogue/table/main.fresh",
        "/catalogue/view/main.seen",
    }


def test_rows_are_shut_by_the_right_alone() -> None:
    asked = (sqlite3.SQLITE_UPDATE, "orders", "status", "main", None)

    assert Authority("read")(*asked) == sqlite3.SQLITE_DENY
    assert Authority("write")(*asked) == sqlite3.SQLITE_OK


def test_pragmas_that_tell_are_open(clone_of: MakeClone) -> None:
    clone = clone_of("read")

    assert rows(clone, "PRAGMA table_info(notes)")
    assert rows(clone, "SELECT name FROM pragma_index_list('lines')") == [["lines_of"]]
    assert rows(clone, "PRAGMA foreign_keys") == [["1"]]


def test_a_foreign_key_holds(clone_of: MakeClone) -> None:
    clone = clone_of()

    assert refused(clone, "INSERT INTO lines (of) VALUES (999)") == "23503"


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("SELEC 1", "42601"),
        ("SELECT 1; SELECT 2", "42601"),
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT missing FROM orders", "42703"),
        ("INSERT INTO orders VALUES (1, 'x', 0)", "23505"),
        ("INSERT INTO orders VALUES (99, NULL, 0)", "23502"),
        ("UPDATE strict_accounts SET balance = '250abc'", "22P02"),
        ("COMMIT", "25P01"),
    ],
)
def test_an_error_has_the_state_that_postgresql_gives(
    clone_of: MakeClone, statement: str, state: str
) -> None:
    assert refused(clone_of(), statement) == state
