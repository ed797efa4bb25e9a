"""What really went through the service's door, against what should have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from rlvr_envs.records import JsonObject
from rlvr_envs.relational import HttpExchange
from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers import strict
from rlvr_envs.verifiers.content import HIDDEN
from rlvr_envs.verifiers.database import SHOWN, facts_of
from rlvr_envs.verifiers.tool_log import carried_out, looked
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

_PARAMETERS = {"anyOf": [{"type": "object"}, HIDDEN]}


def _requests(**more: Any) -> dict[str, Any]:
    one = {
        "type": "object",
        "properties": {
            "operation": {"type": "string", "minLength": 1},
            "parameters": _PARAMETERS,
            **more,
        },
        "required": ["operation"],
        "additionalProperties": False,
    }
    return {"anyOf": [{"type": "array", "items": one}, HIDDEN]}


class RestAudit(Verifier):
    """Holds the writes that the service carried out against those expected.

    Options: ``writes``, each with ``operation``, ``parameters`` (those named must
    be so, others are free) and ``times`` (1); ``reads``, likewise, each of which
    must have been answered once at least; ``others`` (true lets writes that are not
    named pass; false). A request that was refused, and one that was answered by an
    earlier one's idempotency key, wrote nothing; unless that first answer was lost.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "writes": _requests(times={"type": "integer", "minimum": 0}),
            "reads": _requests(),
            "others": {"type": "boolean"},
        },
        "required": ["writes"],
        "additionalProperties": False,
    }

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        exchanges = facts_of(frozen).exchanges
        left = list(carried_out(exchanges))
        problems = []
        # The most particular first, so that a vague one does not take their request.
        for want in sorted(context.plain(self.options["writes"]), key=_vagueness):
            fits = [item for item in left if _fits(item, want)]
            if len(fits) != want.get("times", 1):
                problems.append(f"{want['operation']} was done {len(fits)} times")
            left = [item for item in left if item not in fits]
        problems += self._unread(exchanges, context)
        extra = () if self.options.get("others", False) else _labels(left)
        problems += [f"{label} was done, which nobody asked for" for label in extra[:1]]
        return Findings(
            (self.check("; ".join(problems[:3])),), collateral=extra[:SHOWN]
        )

    def _unread(self, exchanges: Sequence[HttpExchange], context: Context) -> list[str]:
        done = list(filter(looked, exchanges))
        return [
            f"{want['operation']} was not read"
            for want in context.plain(self.options.get("reads", []))
            if not any(_fits(item, want) for item in done)
        ]


def _vagueness(want: Mapping[str, Any]) -> int:
    return -len(want.get("parameters", {}))


def _fits(exchange: HttpExchange, want: Mapping[str, Any]) -> bool:
    if exchange.operation != want["operation"]:
        return False
    wanted = dict(want.get("parameters", {}))
    given = {key: value for key, value in exchange.parameters.items() if key in wanted}
    return not strict.difference(given, wanted, tolerance=0.0)


def _labels(left: Sequence[HttpExchange]) -> tuple[str, ...]:
    return tuple(f"/requests/{item.turn}/{item.operation}" for item in left)
