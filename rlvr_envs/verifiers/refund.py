"""The refund task's outcome, from what the harness found."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from rlvr_envs.records import Check, JsonObject, Status
from rlvr_envs.relational import DatabaseFacts
from rlvr_envs.rewards.tickets.refund import Delivery, RefundFacts, refund_outcome
from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers import rowset
from rlvr_envs.verifiers.database import SHOWN, facts_of, undeclared_rows
from rlvr_envs.verifiers.tool_log import turns_of
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier
from rlvr_envs.verifiers.webhook import WEBHOOK, wrong_body


class Refund(Verifier):
    """Pays a refund by three invariants: the order's rows, no other, one webhook.

    Options: ``rows`` (as for ``sql_rows``: the order's, and whatever its refund
    writes), ``besides`` (tables that are nobody's business), ``webhook`` (``name``,
    and ``body`` that it must carry). Rows that nobody asked for, and rows outside
    the task's write set, are collateral. A webhook with another body is a delivery
    without a key: it counts, and does not satisfy.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "rows": rowset.ROWS,
            "besides": rowset.BESIDES,
            "webhook": {
                "type": "object",
                "properties": WEBHOOK,
                "required": ["name"],
                "additionalProperties": False,
            },
        },
        "required": ["rows", "webhook"],
        "additionalProperties": False,
    }

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        facts = facts_of(frozen)
        found = rowset.match(
            context.plain(self.options["rows"]),
            facts.diff,
            self.options.get("besides", ()),
        )
        strange = undeclared_rows(facts.diff, context.verification.writes)
        given = RefundFacts(
            order_matches=not found.problems,
            collateral=tuple(dict.fromkeys((*found.extra, *strange)))[:SHOWN],
            deliveries=self._deliveries(facts, context),
        )
        outcome = refund_outcome(given, turns_of(facts))
        held = outcome.status is Status.PASSED
        told = "; ".join(found.problems) or outcome.reason
        whole = Check(self.spec.name, held, "" if held else told)
        return Findings(
            checks=(*outcome.checks, whole),
            reward=outcome.reward,
            penalty=outcome.efficiency_penalty,
            collateral=outcome.collateral,
        )

    def _deliveries(
        self, facts: DatabaseFacts, context: Context
    ) -> tuple[Delivery, ...]:
        webhook = self.options["webhook"]
        body = context.plain(webhook.get("body", {}))
        ours = [sent for sent in facts.deliveries if sent.name == webhook["name"]]
        return tuple(
            Delivery(
                sent.status,
                "" if wrong_body([sent], body) else sent.idempotency_key,
            )
            for sent in ours
        )
