"""What is told of two clones that lived through the same is the same."""

from __future__ import annotations

from typing import Any

from rlvr_envs.envs.sql_rest.grading import GraderQueries
from rlvr_envs.sandbox.postgres.roles import Rights
from tests.databases import MakeClone

LIVED = (
    "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
    "INSERT INTO notes VALUES (current_user), ('by ' || current_database())",
    "CREATE TEMP TABLE mine (id int)",
)
NAMED = "SELECT body FROM public.notes WHERE body LIKE %(like)s ORDER BY 1"


def told(clone_of: MakeClone) -> list[Any]:
    clone = clone_of(Rights.DEFINE)
    agent = clone.open_agent()
    for statement in LIVED:
        agent.execute(statement.encode())
    clone.freeze()
    found, written = clone.diff(), clone.ledger()
    queried = GraderQueries(clone).query(NAMED, {"like": "%rlvr-%"})
    parts = [
        [change.path for change in found.catalogue],
        [(change.path, change.new) for change in found.rows],
        [change.new for change in written.changes],
        [(event.tag, event.objects) for event in written.ddl],
        queried.rows,
    ]
    assert clone.name not in str(parts)
    return parts


def test_the_name_of_a_clone_is_nowhere(clone_of: MakeClone) -> None:
    one, other = told(clone_of), told(clone_of)

    assert one == other
    assert "/catalogue/default privilege/agent r" in one[0]
    assert [change["body"] for change in one[2] if change] == ["agent", "by agent"]
    assert [row["body"] for row in one[4]] == ["by agent", "agent"]
