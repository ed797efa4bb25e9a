"""The tool log of a database episode as turns that a rubric reads."""

from __future__ import annotations

from collections.abc import Mapping

from rlvr_envs.records import ErrorKind, ToolCall, ToolCategory
from rlvr_envs.relational import Called, DatabaseFacts, HttpExchange
from rlvr_envs.rewards.episode import Turn

_LOST = Turn(ToolCall(""), ok=False, error_kind=ErrorKind.MALFORMED_CALL)
"""A turn whose call nobody could read; it was a turn all the same."""


def turns_of(facts: DatabaseFacts) -> tuple[Turn, ...]:
    """Return every turn, in order: that of a request is a call of its operation.

    Observations are left out: no rubric reads them.
    """
    calls = {call.turn: call for call in facts.calls}
    served = {item.turn: item for item in facts.exchanges if item.operation}
    last = max([len(facts.times_s), *calls, *served])
    return tuple(_turn(calls.get(n), served.get(n)) for n in range(1, last + 1))


def succeeded(exchange: HttpExchange) -> bool:
    """Return whether a request was answered 2xx."""
    return 200 <= exchange.status < 300


def written(exchange: HttpExchange) -> bool:
    """Return whether a request wrote; the replay of an earlier answer did not."""
    wrote = bool(exchange.operation) and not exchange.reads and not exchange.replayed
    return wrote and succeeded(exchange)


def _turn(call: Called | None, exchange: HttpExchange | None) -> Turn:
    if exchange is not None:
        return _served(exchange)
    if call is None:
        return _LOST
    return Turn(
        call.call, category=call.category, ok=call.ok, error_kind=call.error_kind
    )


def _served(exchange: HttpExchange) -> Turn:
    given: Mapping[str, object] = exchange.parameters
    kind = ToolCategory.OBSERVE if exchange.reads else ToolCategory.MUTATE
    return Turn(
        ToolCall(exchange.operation, dict(given)),
        category=kind,
        ok=succeeded(exchange),
    )
