"""Which rows an episode changed, by table, key, column and value."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from rlvr_envs.records import JsonObject
from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers import rowset
from rlvr_envs.verifiers.database import SHOWN, facts_of
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier


class SqlRows(Verifier):
    """Holds the rows that differ from the template against those that must.

    Options: ``rows``, each with ``table`` (schema and name), ``kind`` (insert,
    update, delete), ``key`` (columns that say which row), ``set`` (columns that it
    must have got; of an update no others may differ but those in ``free``; of an
    insert those not named are free), ``optional`` (may, not must); and ``besides``:
    tables that are not this check's business. Any other row that differs is
    collateral. ``rows`` as a whole, or any value, may be ``{hidden: key}``.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {"rows": rowset.ROWS, "besides": rowset.BESIDES},
        "required": ["rows"],
        "additionalProperties": False,
    }

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        found = rowset.match(
            context.plain(self.options["rows"]),
            facts_of(frozen).diff,
            self.options.get("besides", ()),
        )
        return Findings((self.check(found.reason),), collateral=found.extra[:SHOWN])
