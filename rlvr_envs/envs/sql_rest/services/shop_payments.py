"""The shop's payment provider: another company, asked before money is written down."""

from __future__ import annotations

import json

from fastapi import HTTPException

from rlvr_envs.envs.sql_rest.services.episode import Episode
from rlvr_envs.envs.sql_rest.services.recorded import Reply, body_of
from rlvr_envs.envs.sql_rest.services.shop_tables import PAYMENTS, payment

_DECLINED, _CONFLICT, _BAD_GATEWAY, _FINE = 402, 409, 502, range(200, 300)
_BUSY = frozenset({429, 503})


def pay_back(here: Episode, order_id: int, cents: int) -> None:
    """Let the provider pay, where the settings say ``payments: true``.

    Raises:
        HTTPException: If it declines (402, or 409 for any other reason of its own), is
            busy, or fails; nothing is written then.
        Unrecorded: If nobody recorded what it says to that.
    """
    if not here.settings.get("payments", False):
        return
    asked = body_of(payment(order_id, cents))
    reply = here.recorded.http("POST", PAYMENTS, asked, turn=here.turn)
    if reply.status not in _FINE:
        raise _refused(reply)


def _refused(reply: Reply) -> HTTPException:
    if reply.status in _BUSY:
        wait = {"Retry-After": reply.headers.get("retry-after", "1")}
        return HTTPException(reply.status, "The payment provider is busy.", wait)
    if reply.status not in range(400, 500):
        return HTTPException(_BAD_GATEWAY, "The payment provider failed.")
    status = _DECLINED if reply.status == _DECLINED else _CONFLICT
    told = f"The payment provider declined: {_reason(reply)}."
    return HTTPException(status, told)


def _reason(reply: Reply) -> str:
    try:
        answer = json.loads(reply.body)
    except ValueError:
        return str(reply.status)
    found = answer.get("reason") if isinstance(answer, dict) else None
    return str(found or reply.status)
