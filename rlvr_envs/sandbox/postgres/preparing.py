"""What a seed's database gets before it becomes a template: grants and witnesses."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg import errors, sql

from rlvr_envs.errors import SnapshotError
from rlvr_envs.sandbox.postgres.cluster import Connection
from rlvr_envs.sandbox.postgres.roles import Rights

PUBLICATION = "rlvr_ledger"

_USER_SCHEMAS = """
SELECT nspname FROM pg_namespace
WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'rlvr_audit')
ORDER BY 1
"""

_USER_TABLES = """
SELECT format('%I.%I', nspname, relname), relpersistence = 'u'
FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE relkind IN ('r', 'p') AND c.oid >= 16384 ORDER BY 1
"""

_GRANTS = (
    ("GRANT USAGE ON SCHEMA {schema} TO {role}", Rights.READ),
    ("GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}", Rights.READ),
    ("GRANT SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}", Rights.READ),
    (
        "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        Rights.WRITE,
    ),
    ("GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}", Rights.WRITE),
    ("GRANT TRUNCATE ON ALL TABLES IN SCHEMA {schema} TO {role}", Rights.TRUNCATE),
    ("GRANT CREATE ON SCHEMA {schema} TO {role}", Rights.DEFINE),
    ("GRANT REFERENCES ON ALL TABLES IN SCHEMA {schema} TO {role}", Rights.DEFINE),
)

# Each such lock takes a place in a table that all databases of the server share: one
# statement fills it, and no neighbour can lock, connect or be made any more.
_ADVISORY = tuple(
    f"pg_{attempt}advisory_{scope}lock{shared}({key})"
    for attempt in ("", "try_")
    for scope in ("", "xact_")
    for shared in ("", "_shared")
    for key in ("bigint", "integer, integer")
)
# What a stranger may call by default and an agent must not: forging the ledger,
# owning large objects, ending or watching neighbours, keeping a snapshot alive.
_CLOSED_FUNCTIONS = (
    "pg_logical_emit_message(boolean, text, text, boolean)",
    "pg_logical_emit_message(boolean, text, bytea, boolean)",
    "lo_creat(integer)",
    "lo_create(oid)",
    "lo_from_bytea(oid, bytea)",
    "pg_cancel_backend(integer)",
    "pg_terminate_backend(integer, bigint)",
    "pg_stat_get_activity(integer)",
    "pg_stat_get_backend_idset()",
    "pg_lock_status()",
    "pg_get_replication_slots()",
    "pg_export_snapshot()",
    *_ADVISORY,
    # The server's own times and numbers differ between runs.
    "pg_backend_pid()",
    "pg_postmaster_start_time()",
    "pg_conf_load_time()",
)
_CLOSED_RELATIONS = (
    "pg_stat_activity",
    "pg_stat_database",
    "pg_stat_replication",
    "pg_stat_replication_slots",
    "pg_replication_slots",
    "pg_locks",
    "pg_database",
    "pg_roles",
    "pg_user",
    "pg_group",
    "pg_auth_members",
    "pg_db_role_setting",
    "pg_shdepend",
)

# The first message outlives the rollback of a command that was denied. A table that
# an agent makes keeps old rows as the seed's do: else nobody could update it.
_WITNESSES = """
CREATE SCHEMA rlvr_audit;
CREATE FUNCTION rlvr_audit.started() RETURNS event_trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM pg_logical_emit_message(false, 'rlvr.ddl.started',
    json_build_object('tag', tg_tag)::text);
END $body$;
CREATE FUNCTION rlvr_audit.ended() RETURNS event_trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE made record;
BEGIN
  FOR made IN SELECT object_identity FROM pg_event_trigger_ddl_commands()
    WHERE object_type = 'table' AND schema_name IS DISTINCT FROM 'pg_temp'
      AND command_tag IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO')
  LOOP
    EXECUTE 'ALTER TABLE ' || made.object_identity || ' REPLICA IDENTITY FULL';
  END LOOP;
  PERFORM pg_logical_emit_message(true, 'rlvr.ddl.ended', json_build_object(
    'tag', tg_tag, 'objects', (SELECT coalesce(json_agg(json_build_object(
      'type', object_type, 'identity', object_identity,
      'temporary', coalesce(schema_name = 'pg_temp', false))), '[]')
      FROM pg_event_trigger_ddl_commands()))::text);
END $body$;
CREATE FUNCTION rlvr_audit.dropped() RETURNS event_trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM pg_logical_emit_message(true, 'rlvr.ddl.dropped', json_build_object(
    'tag', tg_tag, 'objects', (SELECT coalesce(json_agg(json_build_object(
      'type', object_type, 'identity', object_identity,
      'temporary', is_temporary)), '[]')
      FROM pg_event_trigger_dropped_objects()))::text);
END $body$;
CREATE EVENT TRIGGER rlvr_started ON ddl_command_start
  EXECUTE FUNCTION rlvr_audit.started();
CREATE EVENT TRIGGER rlvr_ended ON ddl_command_end
  EXECUTE FUNCTION rlvr_audit.ended();
CREATE EVENT TRIGGER rlvr_dropped ON sql_drop
  EXECUTE FUNCTION rlvr_audit.dropped();
"""


# It is not logged: the ledger is of the seed's tables alone, and what a crash empties
# belongs to an episode that is lost anyway.
_OF_SERVICES = """
CREATE SCHEMA rlvr_service;
CREATE UNLOGGED TABLE rlvr_service.answers (
  key bytea PRIMARY KEY, request bytea NOT NULL, answer bytea NOT NULL,
  seal bytea NOT NULL
);
GRANT USAGE ON SCHEMA rlvr_service TO rlvr_party;
GRANT SELECT, INSERT, UPDATE ON rlvr_service.answers TO rlvr_party;
"""


def prepare(connection: Connection, *, given: Iterable[str] = ()) -> None:
    """Grant the agents' groups their rights and set up what the ledger needs.

    Args:
        connection: The superuser's, in a database that holds a loaded seed.
        given: Tables, ``schema.name``, that agents with the right to define own.

    Raises:
        SnapshotError: If a given table is none of the seed's.
    """
    with connection.transaction():
        _grant(connection)
        _give(connection, given)
        _keep_old_rows(connection)
        _close_doors(connection)
        connection.execute(
            sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES").format(
                sql.Identifier(PUBLICATION)
            )
        )
        connection.execute(_OF_SERVICES)
        connection.execute(_WITNESSES)
    connection.execute("VACUUM (FREEZE, ANALYZE)")


def _grant(connection: Connection) -> None:
    for (schema,) in connection.execute(_USER_SCHEMAS).fetchall():
        for statement, rights in _GRANTS:
            connection.execute(
                sql.SQL(statement).format(
                    schema=sql.Identifier(str(schema)),
                    role=sql.Identifier(rights.group),
                )
            )


def _give(connection: Connection, tables: Iterable[str]) -> None:
    for table in tables:
        statement = sql.SQL("ALTER TABLE {} OWNER TO {}").format(
            sql.Identifier(*table.split(".")), sql.Identifier(Rights.DEFINE.group)
        )
        try:
            connection.execute(statement)
        except errors.UndefinedTable as error:
            raise SnapshotError(f"The seed has no table {table} to give.") from error


def _keep_old_rows(connection: Connection) -> None:
    for name, unlogged in connection.execute(_USER_TABLES).fetchall():
        if unlogged:
            connection.execute(f"ALTER TABLE {name} SET LOGGED".encode())
        connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL".encode())


# What counters tell is the server's, its neighbours' and the real clock's.
_COUNTERS = r"""
SELECT oid::regprocedure::text FROM pg_proc
WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^pg_stat_get_' ORDER BY 1
"""


def _close_doors(connection: Connection) -> None:
    counters = [str(name) for (name,) in connection.execute(_COUNTERS).fetchall()]
    for name in (*_CLOSED_FUNCTIONS, *counters):
        connection.execute(f"REVOKE ALL ON FUNCTION {name} FROM PUBLIC".encode())
    for name in _CLOSED_RELATIONS:
        connection.execute(f"REVOKE ALL ON {name} FROM PUBLIC".encode())
