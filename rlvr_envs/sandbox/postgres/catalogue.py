"""Every definition in a database, as text that two clones can be compared by."""

from __future__ import annotations

from collections.abc import Iterable

from rlvr_envs.relational import CatalogueChange, CatalogueEntry
from rlvr_envs.sandbox.postgres.cluster import Connection

_FIRST_OID = "16384"
_LASTING = "nspname !~ '^pg_(toast_)?temp_' AND nspname <> 'pg_toast'"

# Kind to a query of name, oid and definition. Server-made objects are left out by
# their numbers, temporary ones by their schema: they end with their session. The
# triggers by which a constraint works follow from it, unless somebody disabled one.
_KINDS = {
    "schema": """
        SELECT quote_ident(nspname), oid,
          concat_ws(' ', pg_get_userbyid(nspowner), nspacl)
        FROM pg_namespace WHERE LASTING""",
    "relation": """
        SELECT format('%I.%I', nspname, relname), c.oid, concat_ws(' ',
          'kind', relkind, 'persistence', relpersistence,
          'owner', pg_get_userbyid(relowner), 'acl', relacl,
          'identity', relreplident, 'security', relrowsecurity, relforcerowsecurity,
          'options', reloptions,
          CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid)
               WHEN relkind IN ('i', 'I') THEN pg_get_indexdef(c.oid) END)
        FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
        WHERE c.oid >= FIRST_OID AND relkind <> 't' AND LASTING""",
    "column": """
        SELECT format('%I.%I.%I', nspname, relname, attname), c.oid, concat_ws(' ',
          attnum, format_type(atttypid, atttypmod), attnotnull, attisdropped,
          'collation', attcollation, 'generated', attgenerated,
          'identity', attidentity, 'acl', attacl,
          'default', pg_get_expr(adbin, adrelid))
        FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
        JOIN pg_namespace n ON n.oid = relnamespace
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE c.oid >= FIRST_OID AND attnum > 0
          AND relkind NOT IN ('t', 'i', 'I', 'S') AND LASTING""",
    "constraint": """
        SELECT format('%I.%I', nspname, conname) || ' of ' || conrelid::regclass,
          c.oid, concat_ws(' ', pg_get_constraintdef(c.oid), convalidated)
        FROM pg_constraint c JOIN pg_namespace n ON n.oid = connamespace
        WHERE c.oid >= FIRST_OID AND LASTING""",
    "trigger": """
        SELECT format('%I on %s', tgname, tgrelid::regclass), t.oid,
          concat_ws(' ', tgenabled, pg_get_triggerdef(t.oid))
        FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
        JOIN pg_namespace n ON n.oid = relnamespace
        WHERE t.oid >= FIRST_OID AND LASTING
          AND NOT (tgisinternal AND tgenabled = 'O')""",
    "rule": """
        SELECT format('%I on %s', rulename, ev_class::regclass), r.oid,
          concat_ws(' ', ev_enabled, pg_get_ruledef(r.oid))
        FROM pg_rewrite r JOIN pg_class c ON c.oid = ev_class
        JOIN pg_namespace n ON n.oid = relnamespace
        WHERE r.oid >= FIRST_OID AND LASTING""",
    "policy": """
        SELECT format('%I on %s', polname, polrelid::regclass), oid, concat_ws(' ',
          polcmd, polpermissive, polroles, pg_get_expr(polqual, polrelid),
          pg_get_expr(polwithcheck, polrelid)) FROM pg_policy""",
    "inheritance": """
        SELECT format('%s of %s', inhrelid::regclass, inhparent::regclass), inhrelid,
          inhseqno::text FROM pg_inherits""",
    "function": """
        SELECT p.oid::regprocedure::text, p.oid, concat_ws(' ',
          'owner', pg_get_userbyid(proowner), 'kind', prokind,
          'definer', prosecdef, 'acl', proacl, 'settings', proconfig,
          'returns', prorettype::regtype, 'body', md5(prosrc))
        FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
        WHERE p.oid >= FIRST_OID AND LASTING""",
    "operator": """
        SELECT o.oid::regoperator::text, o.oid, oprcode::regprocedure::text
        FROM pg_operator o JOIN pg_namespace n ON n.oid = oprnamespace
        WHERE o.oid >= FIRST_OID AND LASTING""",
    "type": """
        SELECT format('%I.%I', nspname, typname), t.oid, concat_ws(' ', typtype,
          pg_get_userbyid(typowner), typbasetype::regtype, typnotnull, typdefault,
          (SELECT string_agg(enumlabel, ',' ORDER BY enumsortorder)
           FROM pg_enum WHERE enumtypid = t.oid))
        FROM pg_type t JOIN pg_namespace n ON n.oid = typnamespace
        WHERE t.oid >= FIRST_OID AND LASTING""",
    "cast": """
        SELECT format('%s as %s', castsource::regtype, casttarget::regtype), oid,
          concat_ws(' ', castcontext, castmethod, castfunc)
        FROM pg_cast WHERE oid >= FIRST_OID""",
    "collation": """
        SELECT format('%I', collname), oid,
          concat_ws(' ', collprovider, collisdeterministic, colllocale)
        FROM pg_collation WHERE oid >= FIRST_OID""",
    "extension": """
        SELECT quote_ident(extname), oid, extversion FROM pg_extension""",
    "event trigger": """
        SELECT quote_ident(evtname), oid,
          concat_ws(' ', evtevent, evtenabled, evtfoid::regprocedure)
        FROM pg_event_trigger""",
    "publication": """
        SELECT quote_ident(pubname), oid, concat_ws(' ', puballtables, pubinsert,
          pubupdate, pubdelete, pubtruncate) FROM pg_publication""",
    "default privilege": """
        SELECT pg_get_userbyid(defaclrole) || ' ' || defaclobjtype::text, oid,
          defaclacl::text FROM pg_default_acl""",
    "large object": """
        SELECT oid::text, oid, pg_get_userbyid(lomowner)
        FROM pg_largeobject_metadata""",
    "setting": """
        SELECT CASE setrole WHEN 0 THEN 'of the database'
          ELSE 'of the role in the database' END, 0::oid, setconfig::text
        FROM pg_db_role_setting WHERE setdatabase =
          (SELECT oid FROM pg_database WHERE datname = current_database())""",
}

_QUERY = " UNION ALL ".join(
    f"SELECT '{kind}', made.* FROM ({query}) AS made(name, oid, definition)"  # noqa: S608 - a table of our own
    for kind, query in _KINDS.items()
)
_QUERY = _QUERY.replace("FIRST_OID", _FIRST_OID).replace("LASTING", _LASTING)


def catalogue(connection: Connection) -> tuple[CatalogueEntry, ...]:
    """Return what is defined in a database, sorted by kind and name.

    A clone has its template's numbers: a table that was dropped and made again,
    to the letter, differs by its own.

    Args:
        connection: One that sees ``pg_catalog`` first.
    """
    entries = [
        CatalogueEntry(str(kind), str(name), int(str(oid)), str(definition))
        for kind, name, oid, definition in connection.execute(_QUERY.encode())
    ]
    return tuple(sorted(entries, key=_order))


def role_settings(connection: Connection, role: str) -> tuple[CatalogueEntry, ...]:
    """Return what a role's sessions start with; it may change some of that itself."""
    rows = connection.execute(
        "SELECT setconfig::text FROM pg_db_role_setting "
        "WHERE setrole = (SELECT oid FROM pg_roles WHERE rolname = %s) "
        "AND setdatabase = 0",
        [role],
    ).fetchall()
    return tuple(CatalogueEntry("setting", "of the role", 0, str(c)) for (c,) in rows)


def compare(
    before: Iterable[CatalogueEntry], after: Iterable[CatalogueEntry]
) -> tuple[CatalogueChange, ...]:
    """Return what was made, removed or redefined, sorted by kind and name."""
    old, new = _by_name(before), _by_name(after)
    return tuple(
        CatalogueChange(*key, old.get(key, ""), new.get(key, ""))
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    )


def _by_name(entries: Iterable[CatalogueEntry]) -> dict[tuple[str, str], str]:
    return {
        (entry.kind, entry.name): f"{entry.definition} [{entry.oid}]"
        for entry in entries
    }


def _order(entry: CatalogueEntry) -> tuple[str, str]:
    return entry.kind, entry.name
