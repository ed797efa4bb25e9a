"""The table of the dispatch desk, and what it exchanges with other companies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvr_envs.envs.sql_rest.services import messages
from rlvr_envs.envs.sql_rest.services.recorded import rpc_row
from rlvr_envs.tasks.tables import Table

SCHEMA = """
CREATE TABLE parcels (
  id text PRIMARY KEY,
  order_id int NOT NULL,
  reference text NOT NULL,
  country text NOT NULL,
  postcode text NOT NULL,
  value_cents int NOT NULL CHECK (value_cents > 0),
  status text NOT NULL CHECK (status IN
    ('IN_TRANSIT', 'AT_CUSTOMS', 'DELIVERED', 'LOST')),
  duty_cents int CHECK (duty_cents >= 0),
  version int NOT NULL DEFAULT 1
);
"""
PARCELS = Table(
    "public.parcels",
    (
        "id",
        "order_id",
        "reference",
        "country",
        "postcode",
        "value_cents",
        "status",
        "duty_cents",
        "version",
    ),
)
QUOTE = "/customs.v1.Duties/Quote"
"""Asked with reference 1, country 2 and value in cents 3; told duty in cents 1."""


def tracking_url(reference: str) -> str:
    """Return where the carrier tells of a parcel."""
    return f"https://api.carrier.example/v2/parcels/{reference}"


def quote_request(reference: str, country: str, value_cents: int) -> bytes:
    """Return the message that asks the customs what a parcel costs."""
    return messages.encode({1: reference, 2: country, 3: value_cents})


def tracked(reference: str, answer: Any, *, status: int = 200) -> Mapping[str, Any]:
    """Return the recorded exchange with the carrier about a parcel."""
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    return {
        "method": "GET",
        "url": tracking_url(reference),
        "status": status,
        "headers": headers,
        "answer": answer,
    }


def quoted(
    reference: str, country: str, value_cents: int, duty_cents: int
) -> Mapping[str, Any]:
    """Return the recorded call of the customs about a parcel."""
    answer = messages.encode({1: duty_cents})
    return rpc_row(QUOTE, quote_request(reference, country, value_cents), answer)


def unquoted(
    reference: str, country: str, value_cents: int, *, code: str, details: str
) -> Mapping[str, Any]:
    """Return the recorded call that the customs refused."""
    asked = quote_request(reference, country, value_cents)
    return rpc_row(QUOTE, asked, code=code, details=details)
