"""What an episode left is read typed, by nobody that the agent could reach."""

from __future__ import annotations

import time

import pytest

from rlvr_envs.errors import SandboxError, SnapshotError
from rlvr_envs.relational import RowKind
from rlvr_envs.sandbox.sqlite.clone import Bounds, Clone
from rlvr_envs.sandbox.sqlite.seeds import Seed
from tests.sqlite_shop import SHOP, MakeClone, refused, rows

NOON_S = 1_800_014_400.0
CLOCKED = (
    "SELECT * FROM lines",
    "INSERT INTO lines (of) VALUES (1) RETURNING *",
    "SELECT date('now'), time('now'), datetime(), julianday('NOW'), unixepoch()",
    "SELECT strftime('%s', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 day')",
    "SELECT CURRENT_TIMESTAMP, CURRENT_DATE, CURRENT_TIME, current_timestamp",
    "SELECT random(), hex(randomblob(9)), abs(random()) % 10",
    "SELECT id FROM orders ORDER BY random() LIMIT 5",
    "CREATE TEMP TABLE t (at TEXT DEFAULT (datetime('now')), n DEFAULT (random()))",
    "INSERT INTO temp.t DEFAULT VALUES RETURNING *",
)


def paths(clone: Clone) -> list[str]:
    clone.freeze()
    return [change.path for change in clone.diff().rows]


def shown(clone: Clone, *, seed: int = 5) -> str:
    clone.set_clock(NOON_S, seed=seed)
    seen = []
    for turn, statement in enumerate(CLOCKED):
        clone.set_clock(NOON_S + turn)
        seen.append(str(rows(clone, statement)))
    return "\n".join(seen)


def test_twenty_episodes_say_the_same_bytes(clone_of: MakeClone) -> None:
    assert len({shown(clone_of()) for _ in range(20)}) == 1
    assert shown(clone_of(), seed=6) != shown(clone_of())


def test_the_clock_is_the_episodes(clone_of: MakeClone) -> None:
    clone = clone_of()
    clone.set_clock(NOON_S, seed=1)

    assert rows(clone, "SELECT datetime('now'), datetime('now', '+1 month')") == [
        ["2027-01-15 12:00:00", "2027-02-15 12:00:00"]
    ]
    clone.set_clock(NOON_S + 90)
    assert rows(clone, "SELECT CURRENT_TIMESTAMP", lasting=False) == [
        ["2027-01-15 12:01:30"]
    ]


def test_a_seeds_own_time_is_fixed(clone_of: MakeClone) -> None:
    seed = Seed("CREATE TABLE t AS SELECT CURRENT_TIMESTAMP AS at, random() AS n")
    later = Seed(seed.script, seed.epoch_s + 60)

    first, again = (rows(clone_of(seed=seed), "SELECT * FROM t") for _ in range(2))

    assert first == again
    assert first[0][0] == "2026-01-01 00:00:00"
    assert rows(clone_of(seed=later), "SELECT at FROM t") == [["2026-01-01 00:01:00"]]


def test_rows_are_named_by_their_keys(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "UPDATE orders SET status = 'shipped' WHERE id = 3")
    rows(clone, "DELETE FROM accounts WHERE name = 'bob'")
    rows(clone, "INSERT INTO orders VALUES (21, 'open', 1.5)")
    clone.freeze()

    found = {change.path: change for change in clone.diff().rows}

    assert set(found) == {
        "/rows/main.orders/3",
        "/rows/main.orders/21",
        "/rows/main.accounts/bob",
    }
    assert found["/rows/main.orders/3"].kind is RowKind.UPDATE
    assert found["/rows/main.orders/3"].new["status"] == "shipped"
    assert found["/rows/main.orders/21"].new["total"] == "1.5"


@pytest.mark.parametrize(
    ("statement", "new"),
    [
        ("UPDATE accounts SET balance = '250abc' WHERE name = 'ada'", "'250abc'"),
        ("UPDATE accounts SET balance = x'323530' WHERE name = 'ada'", "x'323530'"),
        ("UPDATE accounts SET balance = 250.5 WHERE name = 'ada'", "250.5"),
        ("UPDATE accounts SET balance = 9e999 WHERE name = 'ada'", "inf"),
        ("UPDATE accounts SET balance = NULL WHERE name = 'ada'", None),
    ],
)
def test_a_value_of_another_type_is_another_value(
    clone_of: MakeClone, statement: str, new: str | None
) -> None:
    clone = clone_of()
    rows(clone, statement)
    clone.freeze()

    (change,) = clone.diff().rows

    assert change.new["balance"] == new


def test_a_text_of_another_case_or_end_is_another_value(clone_of: MakeClone) -> None:
    seed = Seed("CREATE TABLE t (a TEXT COLLATE NOCASE PRIMARY KEY, b TEXT);"
                "INSERT INTO t VALUES ('a', 'x'), ('b', 'x'), ('c', 'x');")  # fmt: skip
    clone = clone_of(seed=seed)
    rows(clone, "UPDATE t SET b = 'x ' WHERE a = 'a'")
    rows(clone, "UPDATE t SET b = 'x' || char(0) || 'y' WHERE a = 'b'")
    rows(clone, "UPDATE t SET a = 'C' WHERE a = 'c'")

    assert len(paths(clone)) == 4


def test_a_row_that_moved_is_the_same_row(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "DELETE FROM notes")
    rows(clone, "INSERT INTO notes VALUES (NULL), ('same'), ('same')")
    rows(clone, "UPDATE orders SET status = 'open' WHERE id = 3")

    assert paths(clone) == []


def test_a_text_that_is_none_is_read_byte_for_byte(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "UPDATE orders SET status = CAST(x'6fff' AS TEXT) WHERE id = 3")
    rows(clone, "UPDATE accounts SET name = CAST(x'fe' AS TEXT) WHERE name = 'ada'")

    assert len(paths(clone)) == 3
    statement = "SELECT status FROM main.orders WHERE id = 3"
    assert clone.ask(statement, {}, Bounds())["rows"] == [["o\udcff"]]


MANY = Seed("""
CREATE TABLE many (id INTEGER PRIMARY KEY, n INTEGER);
WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i LIMIT 3000)
INSERT INTO many SELECT n * 2, n FROM i;
""")


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("DELETE FROM many WHERE id IN (2, 1024, 1026, 6000)", 4),
        ("INSERT INTO many VALUES (1, 0), (3, 0), (1025, 0), (5999, 0), (9999, 0)", 5),
        ("UPDATE many SET n = 0 WHERE id % 600 = 0", 10),
        ("UPDATE many SET id = -id WHERE id <= 1024", 1024),
        ("DELETE FROM many", 3000),
        ("DELETE FROM many WHERE id > 10", 2995),
        ("UPDATE many SET n = n", 0),
    ],
)
def test_every_difference_in_a_long_table_is_found(
    clone_of: MakeClone, statement: str, count: int
) -> None:
    clone = clone_of(seed=MANY)
    rows(clone, statement)

    assert len(set(paths(clone))) == count


def test_a_repeated_row_counts(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "INSERT INTO notes VALUES ('same')")

    assert len(paths(clone)) == 1


def test_a_temporary_table_shadows_nothing_for_the_grader(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "CREATE TEMP TABLE orders AS SELECT 3 AS id, 'shipped' AS status")
    assert rows(clone, "SELECT status FROM orders") == [["shipped"]]

    assert rows(clone, "SELECT count(*) FROM orders", lasting=False) == [["20"]]
    assert paths(clone) == []
    statement = "SELECT status FROM main.orders WHERE id = %(id)s"
    assert clone.ask(statement, {"id": 3}, Bounds())["rows"] == [["open"]]


def test_a_table_that_became_a_view_is_not_read(clone_of: MakeClone) -> None:
    clone = clone_of("define")
    rows(clone, "ALTER TABLE orders RENAME TO o_")
    rows(clone, "CREATE VIEW orders AS SELECT id, 'shipped' AS status, total FROM o_")
    clone.freeze()

    diff = clone.diff()

    assert diff.unread == ("main.orders",)
    assert "/catalogue/relation/main.orders" in {c.path for c in diff.catalogue}


def test_a_table_with_other_columns_is_not_read(clone_of: MakeClone) -> None:
    clone = clone_of("define")
    rows(clone, "ALTER TABLE orders ADD COLUMN x")
    rows(clone, "UPDATE orders SET status = 'shipped'")
    clone.freeze()

    assert clone.diff().unread == ("main.orders",)
    assert clone.diff().rows == ()


def test_a_look_keeps_no_transaction(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "BEGIN", lasting=False)
    rows(clone, "SELECT count(*) FROM orders", lasting=False)

    rows(clone, "DELETE FROM orders")

    assert rows(clone, "SELECT count(*) FROM orders", lasting=False) == [["0"]]


def test_a_door_held_open_is_shut(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "BEGIN EXCLUSIVE")
    rows(clone, "UPDATE orders SET status = 'shipped' WHERE id = 3")

    assert (
        rows(clone, "SELECT 1 FROM orders WHERE status <> 'open'", lasting=False) == []
    )
    assert clone.look().empty
    assert clone.freeze() == ("idle in transaction",)
    assert clone.diff().empty
    with pytest.raises(SandboxError, match="no door"):
        clone.run("COMMIT", Bounds())


def test_what_was_committed_before_the_freeze_stays(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "BEGIN")
    rows(clone, "UPDATE orders SET status = 'shipped' WHERE id = 3")
    rows(clone, "COMMIT")

    assert clone.freeze() == ()
    assert [change.path for change in clone.ledger().changes] == ["/rows/main.orders/3"]


def test_looking_at_a_living_database_disturbs_nobody(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "UPDATE orders SET status = 'shipped' WHERE id = 3")

    assert [change.path for change in clone.look().rows] == ["/rows/main.orders/3"]
    rows(clone, "UPDATE orders SET status = 'open' WHERE id = 3")
    assert clone.look().empty


def test_a_busy_statement_is_interrupted(clone_of: MakeClone) -> None:
    clone = clone_of()
    busy = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"

    answer = clone.run(busy, Bounds(seconds=0.2))

    assert answer["timed_out"]
    assert not answer["lost"]
    assert rows(clone, "SELECT 1") == [["1"]]


def test_a_deaf_statement_is_killed_with_its_session(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "BEGIN")
    rows(clone, "DELETE FROM orders")
    deaf = "SELECT instr(printf('%.*c', 4000000, 'a'), printf('%.*c', 2000000, 'a') || 'b')"
    began = time.monotonic()

    answer = clone.run(deaf, Bounds(seconds=0.1))

    assert answer == {"lost": True, "timed_out": True}
    assert time.monotonic() - began < 5
    assert rows(clone, "SELECT count(*) FROM orders") == [["20"]]
    assert not clone.open


def test_memory_and_disk_have_an_end(clone_of: MakeClone) -> None:
    clone = clone_of()

    assert refused(clone, "SELECT zeroblob(1000000000)") == "54000"
    filling = (
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 40) "
        "INSERT INTO notes SELECT zeroblob(8000000) FROM n"
    )
    assert refused(clone, filling) == "53100"
    assert paths(clone) == []


def test_rows_beyond_the_bounds_are_counted(clone_of: MakeClone) -> None:
    answer = clone_of().run("SELECT * FROM orders", Bounds(rows=3))

    assert (len(answer["rows"]), answer["rows_total"]) == (3, 20)
    assert answer["bytes_kept"] < answer["bytes_total"]


def test_more_differences_than_asked_for_are_told(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "DELETE FROM orders")
    clone.freeze()

    assert not clone.diff(limit_rows=5).complete
    assert clone.diff(limit_rows=20).complete


def test_a_verifiers_mistake_is_told_apart(clone_of: MakeClone) -> None:
    clone = clone_of()
    clone.freeze()

    for untouched in (False, True):
        answer = clone.ask("SELECT 1 FROM main.no", {}, Bounds(), untouched=untouched)
        assert answer["problem"] == "42P01: no such table: main.no"
    assert clone.ask("DELETE FROM main.orders", {}, Bounds())["problem"]
    assert clone.diff().empty


def test_two_clones_do_not_see_each_other(clone_of: MakeClone) -> None:
    first, second = clone_of(), clone_of()
    rows(first, "DELETE FROM orders")

    assert rows(second, "SELECT count(*) FROM orders") == [["20"]]


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("CREATE TABLE t (a); SELEC 1", "syntax error"),
        ("ATTACH '/tmp/x.db' AS x", "too many attached"),
        (
            "CREATE TABLE p (a INTEGER PRIMARY KEY);"
            "CREATE TABLE c (a REFERENCES p); INSERT INTO c VALUES (1)",
            "without its p",
        ),
    ],
)
def test_a_wrong_seed_is_told(clone_of: MakeClone, script: str, says: str) -> None:
    with pytest.raises(SnapshotError, match=says):
        clone_of(seed=Seed(script))


def test_the_same_script_is_the_same_seed() -> None:
    assert Seed(SHOP.script).digest == SHOP.digest
    assert Seed(SHOP.script + " ").digest != SHOP.digest
