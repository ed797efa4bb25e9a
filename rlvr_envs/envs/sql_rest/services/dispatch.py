"""A dispatch desk: parcels, and what the carrier and the customs tell of them.

The carrier is asked over HTTP and the customs over gRPC; both are other companies,
whose recorded answers the instance holds.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import FastAPI, Header, HTTPException, Query, Response
from pydantic import Field

from rlvr_envs.envs.sql_rest.services import messages
from rlvr_envs.envs.sql_rest.services.brief import Body, Route, brief_app
from rlvr_envs.envs.sql_rest.services.definition import Definition
from rlvr_envs.envs.sql_rest.services.dispatch_tables import (
    QUOTE,
    quote_request,
    tracking_url,
)
from rlvr_envs.envs.sql_rest.services.episode import Episode, Here, Row
from rlvr_envs.envs.sql_rest.services.recorded import Reply, RpcError

PAGE = 50
"""Most rows of one page."""

_OK, _ABSENT, _BAD_GATEWAY = 200, 404, 502
_BUSY = frozenset({429, 503})
_RPC_STATUSES = {"NOT_FOUND": 404, "RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503}


class ParcelBody(Body):
    """The new status of a parcel, and what the customs ask for it."""

    status: Literal["IN_TRANSIT", "AT_CUSTOMS", "DELIVERED", "LOST"]
    duty_cents: Annotated[int, Field(ge=0, le=10_000_000)] | None = None


def build() -> FastAPI:
    """Build the application."""
    return brief_app("Dispatch", _ROUTES)


async def list_parcels(
    here: Here,
    status: str | None = None,
    after: str = "",
    limit: Annotated[int, Query(ge=1, le=PAGE)] = 10,
) -> Any:
    """List parcels by id; `next` is what to give as `after` for the next page."""
    rows = here.rows(
        "SELECT * FROM public.parcels WHERE id > %s"
        " AND (%s::text IS NULL OR status = %s) ORDER BY id LIMIT %s",
        after, status, status, limit + 1,
    )  # fmt: skip
    page = rows[:limit]
    return {"parcels": page, "next": page[-1]["id"] if len(rows) > limit else None}


async def get_parcel(here: Here, parcel_id: str, response: Response) -> Any:
    """One parcel; `ETag` is its version."""
    parcel = _parcel(here, parcel_id)
    response.headers["etag"] = f'"{parcel["version"]}"'
    return parcel


async def track_parcel(here: Here, parcel_id: str) -> Any:
    """What the carrier tells of the parcel's reference, in its own words."""
    parcel = _parcel(here, parcel_id)
    url = tracking_url(quote(parcel["reference"], safe=""))
    reply = here.recorded.http("GET", url, turn=here.turn)
    if reply.status != _OK:
        raise _passed_on(reply)
    return {"id": parcel["id"], "carrier": _said(reply)}


async def quote_duty(here: Here, parcel_id: str) -> Any:
    """What the customs ask for the parcel."""
    parcel = _parcel(here, parcel_id)
    asked = quote_request(parcel["reference"], parcel["country"], parcel["value_cents"])
    try:
        told = messages.decode(here.recorded.unary(QUOTE, asked, turn=here.turn))
    except RpcError as error:
        raise _refused(error) from None
    return {"id": parcel["id"], "duty_cents": told.get(1, 0)}


async def update_parcel(
    here: Here,
    parcel_id: str,
    body: ParcelBody,
    if_match: Annotated[str | None, Header()] = None,
) -> Any:
    """Set status and duty (none if left out); `If-Match` carries the version read."""
    parcel = _parcel(here, parcel_id, lock=True)
    if if_match is None:
        raise HTTPException(428, "Say in If-Match which version you read.")
    if if_match.strip() != f'"{parcel["version"]}"':
        raise HTTPException(412, "The parcel has changed since; read it again.")
    return here.row(
        "UPDATE public.parcels SET status = %s, duty_cents = %s, version = version + 1"
        " WHERE id = %s RETURNING *",
        body.status, body.duty_cents, parcel_id,
    )  # fmt: skip


_ROUTES: tuple[Route, ...] = (
    ("GET", "/parcels", list_parcels, 200),
    ("GET", "/parcels/{parcel_id}", get_parcel, 200),
    ("PATCH", "/parcels/{parcel_id}", update_parcel, 200),
    ("GET", "/parcels/{parcel_id}/tracking", track_parcel, 200),
    ("GET", "/parcels/{parcel_id}/duty", quote_duty, 200),
)

DISPATCH = Definition(
    name="dispatch",
    build=build,
    effects={"update_parcel": "status"},
    repeatable=frozenset({"update_parcel"}),
)


def _parcel(here: Episode, parcel_id: str, *, lock: bool = False) -> Row:
    suffix = " FOR UPDATE" if lock else ""
    statement = f"SELECT * FROM public.parcels WHERE id = %s{suffix}"  # noqa: S608 (our words)
    row = here.row(statement, parcel_id)
    if row is None:
        raise HTTPException(_ABSENT, "There is no such parcel.")
    return row


def _said(reply: Reply) -> Any:
    try:
        return json.loads(reply.body)
    except ValueError:
        told = "The carrier's answer cannot be read."
        raise HTTPException(_BAD_GATEWAY, told) from None


def _passed_on(reply: Reply) -> HTTPException:
    if reply.status == _ABSENT:
        return HTTPException(_ABSENT, "The carrier knows no such parcel.")
    if reply.status in _BUSY:
        wait = {"Retry-After": reply.headers.get("retry-after", "1")}
        return HTTPException(reply.status, "The carrier is busy.", wait)
    return HTTPException(_BAD_GATEWAY, f"The carrier answered {reply.status}.")


def _refused(error: RpcError) -> HTTPException:
    status = _RPC_STATUSES.get(error.code, _BAD_GATEWAY)
    wait = {"Retry-After": "1"} if status in _BUSY else None
    return HTTPException(status, f"The customs say {error.code}: {error.details}", wait)
