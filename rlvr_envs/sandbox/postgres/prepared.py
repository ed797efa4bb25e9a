"""Transactions that were prepared: they outlive their session, and hold what it held.

Our own server keeps none; somebody else's may be set up to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import errors, sql

from rlvr_envs.sandbox.postgres.naming import PREFIX

Connection = psycopg.Connection[tuple[object, ...]]

_PREPARED = """
SELECT gid, database, transaction::text FROM pg_prepared_xacts
WHERE owner LIKE %s AND (%s = '' OR database = %s) ORDER BY gid
"""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A transaction that waits for its second phase.

    Attributes:
        gid: As its maker named it.
        database: In which alone it can be ended.
        xid: The server's number for it.
    """

    gid: str
    database: str
    xid: str


def prepared(admin: Connection, database: str = "") -> Sequence[Prepared]:
    """Return those that agents left, sorted by name.

    Args:
        admin: The superuser's.
        database: Empty for all of the cluster.
    """
    rows = admin.execute(_PREPARED, [f"{PREFIX}%", database, database]).fetchall()
    return [Prepared(*map(str, row)) for row in rows]


def undo(inside: Connection, found: Prepared) -> None:
    """Roll one back; one that is gone already is no error.

    Args:
        inside: The superuser's, in the transaction's own database.
        found: What to end.
    """
    statement = sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(found.gid))
    try:
        inside.execute(statement)
    except errors.UndefinedObject:
        return
