"""The tool log of a database episode as turns that a rubric reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def looked(exchange: HttpExchange) -> bool:
    """Return whether a request read something: the answer to HEAD shows nothing."""
    return exchange.reads and exchange.method != "HEAD" and succeeded(exchange)


def attempted(exchange: HttpExchange) -> bool:
    """Return whether a request may have written, whatever its answer says of it.

    An answer can be lost after the work was done; the ledger knows. A replay of an
    earlier answer does no work.
    """
    return bool(exchange.operation) and not exchange.reads and not exchange.replayed


def carried_out(exchanges: Sequence[HttpExchange]) -> tuple[HttpExchange, ...]:
    """Return the writes that the service carried out, each once, in order.

    A replay counts where the first answer was lost: it shows that the work stood.
    """
    told: set[tuple[str, str]] = set()
    found = []
    for item in exchanges:
        known = (item.operation, item.idempotency_key)
        if not item.operation or item.reads or not succeeded(item):
            continue
        if not item.replayed or known not in told:
            found.append(item)
        told.add(known)
    return tuple(found)


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
        ok=looked(exchange) if exchange.reads else succeeded(exchange),
    )
