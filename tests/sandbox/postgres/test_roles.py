"""An agent's role writes rows where it may, and can do nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rlvr_envs.errors import SnapshotError
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster, Connection
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.templates import Template
from tests.databases import READ_ONLY_ATTACKS, MakeClone

WRITER_ATTACKS = (
    "TRUNCATE orders",
    "DROP TABLE orders",
    "ALTER TABLE orders DISABLE TRIGGER ALL",
    "ALTER TABLE orders REPLICA IDENTITY NOTHING",
    "ALTER TABLE orders SET UNLOGGED",
    "ALTER TABLE orders ALTER status TYPE text USING 'shipped'",
    "ALTER TABLE orders RENAME TO o2",
    "CREATE RULE r AS ON UPDATE TO orders DO INSTEAD NOTHING",
    "CREATE TABLE kid () INHERITS (orders)",
    "CREATE SCHEMA evil",
    "CREATE VIEW open_orders AS SELECT * FROM orders",
    "CREATE EXTENSION dblink",
    "SET session_replication_role = replica",
    "SET event_triggers = off",
    "DROP EVENT TRIGGER rlvr_started",
    "SET ROLE rlvr_owner",
    "SET ROLE rlvr_write",
    "SET SESSION AUTHORIZATION postgres",
    "SET temp_file_limit = -1",
    "SELECT setval('tickets', 100)",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT pg_logical_emit_message(true, 'rlvr.flush', 'forged')",
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_advisory_lock(i) FROM generate_series(1, 1000000) AS i",
    "SELECT pg_try_advisory_xact_lock_shared(1, 2)",
    "SELECT * FROM pg_stat_activity",
    "SELECT * FROM pg_stat_get_activity(NULL)",
    "SELECT * FROM pg_stat_wal",
    "SELECT pg_stat_get_backend_pid(1)",
    "SELECT pg_stat_get_db_numbackends(1)",
    "SELECT * FROM pg_database",
    "SELECT rlvr_audit.started()",
    "SELECT * FROM rlvr_service.answers",
    "INSERT INTO rlvr_service.answers VALUES ('', '', '', '')",
    "SET ROLE rlvr_party",
    "SELECT pg_drop_replication_slot('x')",
    "GRANT rlvr_owner TO CURRENT_USER",
    "ALTER SYSTEM SET fsync = on",
    "CREATE PUBLICATION p",
)


def refused(agent: Connection, statement: str) -> str:
    with pytest.raises(psycopg.Error) as caught:
        agent.execute(statement.encode())
    return caught.value.sqlstate or ""


def is_clean(clone: Clone) -> bool:
    clone.freeze()
    return clone.diff().empty and not clone.ledger().changes


def test_a_read_only_role_can_write_nothing(
    clone_of: MakeClone, tmp_path: Path
) -> None:
    clone = clone_of(Rights.READ)
    agent = clone.open_agent()
    file = tmp_path / "touched"
    agent.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")

    for attack in READ_ONLY_ATTACKS:
        assert refused(agent, attack.format(file=file))
        assert agent.execute("SELECT count(*) FROM orders").fetchone() == (20,)
    assert not file.exists()
    assert is_clean(clone)


def test_a_writing_role_is_denied_every_way_around_the_ledger(
    clone_of: MakeClone,
) -> None:
    clone = clone_of()
    agent = clone.open_agent()

    for attack in WRITER_ATTACKS:
        assert refused(agent, attack), attack
        assert agent.execute("SELECT 1").fetchone() == (1,)
    assert is_clean(clone)


def test_an_error_carries_its_state_hint_and_position(clone_of: MakeClone) -> None:
    agent = clone_of().open_agent()

    with pytest.raises(psycopg.errors.UndefinedColumn) as caught:
        agent.execute("SELECT statu FROM orders")

    assert caught.value.sqlstate == "42703"
    assert "status" in (caught.value.diag.message_hint or "")
    assert caught.value.diag.statement_position == "8"


def test_the_role_owns_nothing_and_holds_no_powers(clone_of: MakeClone) -> None:
    clone = clone_of()

    row = clone.admin.execute(
        "SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls, "
        "pg_has_role(rolname, 'pg_execute_server_program', 'member'), "
        "pg_has_role(rolname, 'pg_read_server_files', 'member'), "
        "pg_has_role(rolname, 'rlvr_owner', 'member'), "
        "EXISTS (SELECT FROM pg_shdepend WHERE refobjid = r.oid AND deptype = 'o') "
        "FROM pg_roles AS r WHERE rolname = %s",
        [clone.name],
    ).fetchone()

    assert row == (False,) * 9


def test_the_owner_cannot_log_in(clone_of: MakeClone) -> None:
    row = clone_of().admin.execute(
        "SELECT rolcanlogin, rolsuper FROM pg_roles WHERE rolname = 'rlvr_owner'"
    )

    assert row.fetchone() == (False, False)


def test_truncate_is_a_right_of_its_own(clone_of: MakeClone) -> None:
    agent = clone_of(Rights.TRUNCATE).open_agent()

    agent.execute("TRUNCATE notes")

    assert agent.execute("SELECT count(*) FROM notes").fetchone() == (0,)


def test_a_temporary_table_is_no_change(clone_of: MakeClone) -> None:
    clone = clone_of()
    agent = clone.open_agent()

    agent.execute("CREATE TEMP TABLE t AS SELECT * FROM orders")
    agent.execute("CREATE INDEX ON t (id)")
    agent.execute("CREATE TEMP TABLE orders AS SELECT 3 AS id, 'shipped' AS status")

    assert is_clean(clone)


def test_a_limit_must_be_positive_and_finite() -> None:
    with pytest.raises(ValueError, match="statement_timeout_s"):
        Access(statement_timeout_s=math.nan)
    with pytest.raises(ValueError, match="temp_file_mib"):
        Access(temp_file_mib=0)


@pytest.mark.parametrize(
    "setting",
    [
        "local_preload_libraries = 'nothing'",
        "role = 'nobody'",
        "search_path = 'nowhere'",
        "client_encoding = 'SQL_ASCII'",
    ],
)
def test_no_setting_of_its_own_keeps_a_role_from_a_new_session(
    clone_of: MakeClone, setting: str
) -> None:
    clone = clone_of(Rights.WRITE)
    clone.open_agent().execute(f"ALTER ROLE CURRENT_USER SET {setting}".encode())

    assert clone.open_agent().execute("SELECT 1").fetchall() == [(1,)]
    assert not is_clean(clone)


GIVEN = Seed("CREATE TABLE orders (id int PRIMARY KEY)", given=("public.orders",))
CLIMBS = """
CREATE FUNCTION climb() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RESET ROLE;
  RESET SESSION AUTHORIZATION;
  CREATE TABLE mine (super bool);
  INSERT INTO mine SELECT rolsuper FROM pg_authid WHERE rolname = current_user;
  RETURN NEW;
END $$
"""


@pytest.fixture
def given(cluster: Cluster) -> Iterator[Clone]:
    """A clone whose table the agent owns."""
    template = Template(cluster, GIVEN)
    clone = make_clone(cluster.filler(), template, Access(Rights.DEFINE))
    yield clone
    clone.close()
    cluster.settle()
    template.close()


def test_a_trigger_that_an_agent_leaves_gains_nothing_from_others(given: Clone) -> None:
    agent, party = given.open_agent(), given.open_party()
    agent.execute(CLIMBS)
    agent.execute(
        "CREATE TRIGGER t BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION climb()"
    )

    assert refused(party, "INSERT INTO public.orders VALUES (1)") == "42501"
    party.close()


def test_others_do_not_wait_for_an_agent_that_holds_a_lock(given: Clone) -> None:
    agent, party = given.open_agent(), given.open_party()
    agent.execute("BEGIN")
    agent.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")

    assert refused(party, "INSERT INTO public.orders VALUES (1)") == "55P03"
    party.close()


def test_a_table_that_is_given_is_owned_by_the_group_and_no_more(given: Clone) -> None:
    agent = given.open_agent()

    agent.execute("ALTER TABLE orders ADD COLUMN note text")
    agent.execute("CREATE VIEW seen AS SELECT id FROM orders")
    for statement in ("SET ROLE rlvr_define", "CREATE SCHEMA own", "CREATE ROLE x"):
        assert refused(agent, statement) == "42501"


def test_a_seed_cannot_give_what_it_has_not(cluster: Cluster) -> None:
    with pytest.raises(SnapshotError, match="no table public"):
        Template(cluster, Seed("SELECT 1", given=("public.lines",)))
