"""Side effects that must happen exactly so often: calls that the sink recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from rlvr_envs.records import JsonObject
from rlvr_envs.relational import DatabaseFacts, Delivered
from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers import strict
from rlvr_envs.verifiers.content import HIDDEN
from rlvr_envs.verifiers.database import facts_of
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

WEBHOOK: dict[str, Any] = {
    "name": {"type": "string", "minLength": 1},
    "body": {"anyOf": [{"type": "object"}, HIDDEN]},
}
"""Options that say which deliveries are meant."""


class Webhook(Verifier):
    """Counts the deliveries of one webhook that were answered 200.

    Options: ``name``; ``times`` (1; 0 for one that must not be sent); ``body``
    (keys and values that each delivery must carry, others are free); ``key``
    (whether each needs an idempotency key; true); ``alone`` (whether no webhook of
    another name may have been answered 200; false). A delivery that was refused is
    none, so that a retry is no second one.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            **WEBHOOK,
            "times": {"type": "integer", "minimum": 0},
            "key": {"type": "boolean"},
            "alone": {"type": "boolean"},
        },
        "required": ["name"],
        "additionalProperties": False,
    }

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        reason = self._problem(facts_of(frozen), context)
        return Findings((self.check(reason),))

    def _problem(self, facts: DatabaseFacts, context: Context) -> str:
        name, times = self.options["name"], self.options.get("times", 1)
        answered = [sent for sent in facts.deliveries if sent.status == 200]
        ours = [sent for sent in answered if sent.name == name]
        if len(ours) != times:
            return f"{name} was answered 200 {len(ours)} times, not {times}"
        if self.options.get("alone", False) and len(ours) < len(answered):
            return "another webhook was sent"
        if self.options.get("key", True) and not all(s.idempotency_key for s in ours):
            return f"{name} was sent without an idempotency key"
        return wrong_body(ours, context.plain(self.options.get("body", {})))


def wrong_body(sent: Sequence[Delivered], body: Mapping[str, Any]) -> str:
    """Return how a delivery does not carry what it must; empty if all do."""
    told = (_difference(one, body) for one in sent)
    return next((f"{sent[0].name}: {text}" for text in told if text), "")


def _difference(sent: Delivered, body: Mapping[str, Any]) -> str:
    if not isinstance(sent.body, Mapping):
        return "the body is no object" if body else ""
    named = {key: value for key, value in sent.body.items() if key in body}
    return strict.difference(named, dict(body), tolerance=0.0, at="body")
