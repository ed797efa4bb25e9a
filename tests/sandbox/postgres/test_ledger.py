"""The ledger tells what was written; the difference tells what stayed."""

from __future__ import annotations

import pytest

from rlvr_envs.errors import SandboxError
from rlvr_envs.relational import DdlStage, RowKind
from rlvr_envs.sandbox.postgres.clone import Clone
from rlvr_envs.sandbox.postgres.roles import Rights
from tests.databases import MakeClone


def owner(clone: Clone, *statements: str) -> None:
    """Act as a role that owns the tables, which no agent's does."""
    with clone._cluster.connect(clone.name, options=" -c role=rlvr_owner") as own:
        for statement in statements:
            own.execute(statement.encode())


def test_rows_are_told_with_their_old_and_new_values(clone_of: MakeClone) -> None:
    clone = clone_of(Rights.TRUNCATE)
    agent = clone.open_agent()

    agent.execute("UPDATE orders SET status = 'it''s' WHERE id = 3")
    agent.execute("DELETE FROM notes WHERE body IS NULL")
    agent.execute("INSERT INTO notes VALUES (E'a\\nb')")
    agent.execute("TRUNCATE readings")

    ledger = clone.ledger()
    told = [(c.table, c.kind, dict(c.old), dict(c.new)) for c in ledger.changes]
    assert ledger.complete
    assert told == [
        (
            "public.orders",
            RowKind.UPDATE,
            {"id": "3", "status": "open", "total": "30.00"},
            {"id": "3", "status": "it's", "total": "30.00"},
        ),
        ("public.notes", RowKind.DELETE, {"body": None}, {}),
        ("public.notes", RowKind.INSERT, {}, {"body": "a\nb"}),
        ("public.readings", RowKind.TRUNCATE, {}, {}),
    ]
    assert len({change.xid for change in ledger.changes}) == 4


def test_what_was_rolled_back_is_not_told(clone_of: MakeClone) -> None:
    clone = clone_of()
    agent = clone.open_agent()

    agent.execute("BEGIN")
    agent.execute("UPDATE orders SET status = 'paid'")
    agent.execute("ROLLBACK")

    assert clone.ledger().changes == ()


def test_a_write_that_was_undone_is_told_and_leaves_no_difference(
    clone_of: MakeClone,
) -> None:
    clone = clone_of()
    agent = clone.open_agent()
    agent.execute("UPDATE orders SET status = 'paid' WHERE id = 1")
    agent.execute("UPDATE orders SET status = 'open' WHERE id = 1")
    clone.freeze()

    assert len(clone.ledger().changes) == 2
    assert clone.diff().empty


def test_a_large_value_left_alone_is_told_from_the_old_row(
    clone_of: MakeClone,
) -> None:
    clone = clone_of()
    agent = clone.open_agent()
    agent.execute(
        "INSERT INTO orders SELECT 99, string_agg(sha256(i::text::bytea)::text, ''), 1 "
        "FROM generate_series(1, 2000) AS i"
    )
    agent.execute("UPDATE orders SET total = 2 WHERE id = 99")

    inserted, updated = clone.ledger().changes

    assert len(inserted.new["status"] or "") > 100_000
    assert updated.new["status"] == inserted.new["status"]


def test_a_ledger_can_be_read_twice(clone_of: MakeClone) -> None:
    clone = clone_of()
    clone.open_agent().execute("UPDATE orders SET total = 1 WHERE id = 1")

    assert clone.ledger() == clone.ledger()


def test_a_ledger_that_was_cut_says_so(clone_of: MakeClone) -> None:
    clone = clone_of()
    clone.open_agent().execute("UPDATE orders SET total = 1")

    assert not clone.ledger(limit_messages=5).complete


def test_a_denied_definition_is_told_of(clone_of: MakeClone) -> None:
    clone = clone_of()
    agent = clone.open_agent()
    agent.execute("CREATE TEMP TABLE mine (id int)")
    for statement in ("DROP TABLE orders", "CREATE SCHEMA evil"):
        with pytest.raises(Exception, match=r"must be owner|permission denied"):
            agent.execute(statement.encode())

    ledger = clone.ledger()

    assert ledger.undone == ("CREATE SCHEMA", "DROP TABLE")
    (made,) = [e for e in ledger.ddl if e.stage is DdlStage.ENDED]
    assert [(o.type, o.temporary) for o in made.objects] == [("table", True)]


def test_a_difference_pairs_rows_by_key(clone_of: MakeClone) -> None:
    clone = clone_of()
    agent = clone.open_agent()
    agent.execute("UPDATE orders SET status = 'shipped' WHERE id = 3")
    agent.execute("DELETE FROM orders WHERE id = 4")
    agent.execute("INSERT INTO orders VALUES (50, 'open', NULL)")
    agent.execute("DELETE FROM notes WHERE ctid = (SELECT min(ctid) FROM notes)")
    clone.freeze()

    found = clone.diff()

    told = [(c.table, c.kind, dict(c.old) or dict(c.new)) for c in found.rows]
    assert found.complete
    assert sorted(told, key=str) == sorted(
        [
            ("public.notes", RowKind.DELETE, {"body": "same"}),
            (
                "public.orders",
                RowKind.UPDATE,
                {"id": "3", "status": "open", "total": "30.00"},
            ),
            (
                "public.orders",
                RowKind.DELETE,
                {"id": "4", "status": "open", "total": "40.00"},
            ),
            (
                "public.orders",
                RowKind.INSERT,
                {"id": "50", "status": "open", "total": None},
            ),
        ],
        key=str,
    )


def test_equal_values_are_no_difference(clone_of: MakeClone) -> None:
    clone = clone_of()
    agent = clone.open_agent()
    agent.execute("UPDATE readings SET price = 1.00 WHERE id = 1")
    agent.execute("UPDATE readings SET weight = '-0' WHERE id = 1")
    agent.execute("UPDATE orders SET total = total")
    clone.freeze()

    assert clone.diff().empty


def test_unequal_values_are_a_difference(clone_of: MakeClone) -> None:
    clone = clone_of()
    agent = clone.open_agent()
    agent.execute("UPDATE readings SET price = 'NaN' WHERE id = 1")
    agent.execute("UPDATE readings SET weight = 'NaN' WHERE id = 2")
    agent.execute("UPDATE orders SET status = 'open ' WHERE id = 1")
    agent.execute("UPDATE orders SET status = 'OPEN' WHERE id = 2")
    agent.execute("UPDATE notes SET body = 'NULL' WHERE body IS NULL")
    clone.freeze()

    found = clone.diff().rows

    kinds = [(change.table, change.kind) for change in found]
    assert kinds.count(("public.readings", RowKind.UPDATE)) == 2
    assert kinds.count(("public.orders", RowKind.UPDATE)) == 2
    assert kinds.count(("public.notes", RowKind.INSERT)) == 1


def test_more_differing_rows_than_asked_for_are_incomplete(
    clone_of: MakeClone,
) -> None:
    clone = clone_of()
    clone.open_agent().execute("UPDATE orders SET total = 0")
    clone.freeze()

    found = clone.diff(limit_rows=3)

    assert not found.complete


def test_a_view_in_a_tables_place_is_seen_and_not_read(clone_of: MakeClone) -> None:
    clone = clone_of()
    owner(
        clone,
        "ALTER TABLE public.orders RENAME TO o2",
        "CREATE VIEW public.orders AS SELECT id, 'shipped'::text AS status FROM public.o2",
    )
    clone.freeze()

    found = clone.diff()

    assert found.unread == ("public.orders",)
    changed = {(c.kind, c.name) for c in found.catalogue}
    assert {("relation", "public.orders"), ("relation", "public.o2")} <= changed


def test_a_table_made_again_to_the_letter_is_another_one(clone_of: MakeClone) -> None:
    clone = clone_of()
    owner(clone, "DROP TABLE public.notes", "CREATE TABLE public.notes (body text)")
    clone.freeze()

    assert clone.diff().unread == ("public.notes",)


def test_padding_through_inheritance_is_not_counted(clone_of: MakeClone) -> None:
    clone = clone_of()
    owner(
        clone,
        "CREATE TABLE public.kid () INHERITS (public.orders)",
        "INSERT INTO public.kid VALUES (3, 'shipped', 0)",
    )
    clone.freeze()

    found = clone.diff()

    assert found.rows == ()
    assert "inheritance" in {change.kind for change in found.catalogue}


REDEFINITIONS = (
    ("schema", "CREATE SCHEMA evil"),
    ("function", "CREATE FUNCTION teq(text, text) RETURNS bool RETURN true"),
    (
        "operator",
        "CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = teq)",
    ),
    ("type", "CREATE DOMAIN d AS int"),
    ("column", "ALTER TABLE notes ALTER body SET DEFAULT 'x'"),
    ("constraint", "ALTER TABLE orders DROP CONSTRAINT orders_pkey"),
    ("policy", "CREATE POLICY p ON notes USING (false)"),
    ("relation", "ALTER TABLE notes ENABLE ROW LEVEL SECURITY"),
    ("rule", "CREATE RULE r AS ON UPDATE TO orders DO INSTEAD NOTHING"),
    ("default privilege", "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC"),
)


def test_the_catalogue_shows_what_was_redefined(clone_of: MakeClone) -> None:
    clone = clone_of()
    owner(clone, "SET search_path = public", *(s for _, s in REDEFINITIONS))
    clone.freeze()

    found = clone.diff()

    assert {kind for kind, _ in REDEFINITIONS} <= {c.kind for c in found.catalogue}
    assert found.rows == ()


def test_the_triggers_of_a_key_follow_from_it(clone_of: MakeClone) -> None:
    clone = clone_of()
    owner(
        clone,
        "ALTER TABLE public.readings ADD FOREIGN KEY (id) REFERENCES public.orders",
    )
    clone.freeze()

    found = clone.diff()

    assert {c.kind for c in found.catalogue} == {"constraint"}


def test_a_key_that_was_switched_off_is_seen(clone_of: MakeClone) -> None:
    clone = clone_of()
    owner(
        clone,
        "ALTER TABLE public.readings ADD FOREIGN KEY (id) REFERENCES public.orders",
    )
    clone.admin.execute("ALTER TABLE public.readings DISABLE TRIGGER ALL")
    clone.freeze()

    found = clone.diff()

    assert [c.kind for c in found.catalogue] == ["constraint", "trigger", "trigger"]


def test_a_setting_that_the_role_gave_itself_is_seen(clone_of: MakeClone) -> None:
    clone = clone_of()
    clone.open_agent().execute("ALTER ROLE CURRENT_USER SET search_path = evil")
    clone.freeze()

    (change,) = clone.diff().catalogue

    assert (change.kind, change.name) == ("setting", "of the role")
    assert "search_path=evil" in change.new


def test_the_grader_writes_nothing(clone_of: MakeClone) -> None:
    clone = clone_of()
    clone.freeze()
    grader = clone.grader()
    grader.execute("SET default_transaction_read_only = off")

    with pytest.raises(Exception, match="permission denied"):
        grader.execute("UPDATE public.orders SET total = 0")


def test_nothing_is_graded_before_the_freeze(clone_of: MakeClone) -> None:
    with pytest.raises(SandboxError, match="graded between"):
        clone_of().diff()


def test_a_freeze_ends_sessions_and_undoes_what_they_held(
    clone_of: MakeClone,
) -> None:
    clone = clone_of()
    agent = clone.open_agent()
    agent.execute("BEGIN")
    agent.execute("UPDATE orders SET status = 'shipped' WHERE id = 3")

    assert clone.freeze() == ("idle in transaction",)
    assert clone.freeze() == ()
    assert clone.diff().empty
    with pytest.raises(SandboxError, match="no door"):
        clone.open_agent()
