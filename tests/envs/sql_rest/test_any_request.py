"""Whatever an agent sends, a service answers; only a world can break a world."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlvr_envs.envs.sql_rest.services import dispatch_tables, shop_tables
from rlvr_envs.envs.sql_rest.services.catalogue import SERVICES, open_service
from rlvr_envs.envs.sql_rest.services.service import Service
from rlvr_envs.importing.tau2_seed import script
from rlvr_envs.sandbox.postgres.clone import make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.templates import Template
from tests.envs.sql_rest.test_shop import ROWS
from tests.importing.retail import database

FAULTS: Sequence[Mapping[str, Any]] = [
    {"status": 429, "times": 100, "retry_after_s": 0},
    {"status": 503, "times": 100, "retry_after_s": 0, "when": "after"},
]
WORLDS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "shop": (shop_tables.database(ROWS), {"approvals": {"up_to_cents": 5000}}),
    "ledger": ("CREATE TABLE t (a int)", {"pages": [[{"id": "E1"}]]}),
    "dispatch": (
        dispatch_tables.SCHEMA
        + dispatch_tables.PARCELS.inserts(
            [("P-1", 1, "R-1", "CH", "8001", 5, "LOST", None, 1)]
        ),
        {"exchanges": [dispatch_tables.tracked("R-1", {"status": "lost"})]},
    ),
    "retail": (script(database()), {}),
}
"""A seed's script and settings for each service."""

KNOWN = (
    "170", "171", "C-1", "LAMP", "T-1", "ap_0001", "refunds", "W1", "%23W2", "ada_1",
    "gift_1", "E1", "L1", "P-1",
)  # fmt: skip
HOSTILE = (
    "", "-1", "1e9", "0x10", "9" * 400, "9" * 5000, "%00", "%ff", "%2e%2e", "..", "*",
    "\ud800", "\n", "a b", "%0d%0aX:y", "[", "]", "::", "?", "#", "%", "é", "null",
)  # fmt: skip
HEADERS = (
    "Idempotency-Key", "If-Match", "Content-Type", "Content-Length", "Host", "Accept",
    "X-HTTP-Method-Override", "X-Role", "Transfer-Encoding", "Upgrade", "Cookie", "",
)  # fmt: skip
FIELDS = (
    "cents", "reason", "sku", "quantity", "order_id", "operation", "event", "status",
    "body", "items", "item_ids", "payment_method_id", "summary", "is_refunded",
)  # fmt: skip


BODIES = (
    "",
    "{}",
    "[" * 900 + "]" * 900,
    '{"a":' * 500 + "1" + "}" * 500,
    "[" * 99_999,
)


words = st.sampled_from(KNOWN + HOSTILE) | st.text(max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | words, inner, max_size=4)
    ),
    max_leaves=6,
)
sensible = st.fixed_dictionaries(
    {},
    optional={
        "cents": st.sampled_from([1, 4250, 0, -1, 2**31, 10**30, 1.5, True]),
        "reason": words,
        "order_id": st.sampled_from([170, 171, 2**31, 2**63, -(10**400)]),
        "operation": st.just("create_refund"),
        "event": st.just("order.refunded"),
        "status": st.sampled_from(["SHIPPED", "REFUNDED"]),
        "body": words,
        "sku": st.sampled_from(["LAMP", "\x00"]),
        "summary": words,
    },
)
bodies = (
    st.just("")
    | st.text(max_size=20)
    | plain.map(json.dumps)
    | sensible.map(json.dumps)
    | st.sampled_from(BODIES)
)
headers = st.dictionaries(
    st.sampled_from(HEADERS) | st.text(max_size=4),
    words | st.sampled_from(['"1"', "*", "application/json", "multipart/form-data"]),
    max_size=3,
)


@st.composite
def paths(draw: st.DrawFn, name: str) -> str:
    """A route of the service with something in each gap, or no route."""
    templates = [operation.path for operation in SERVICES[name].operations]
    parts = draw(st.sampled_from([*templates, "/openapi.json", "", "*"])).split("/")
    filled = [draw(words) if part.startswith("{") else part for part in parts]
    names = st.sampled_from(["limit", "after", "page", "expression", "status", "email"])
    query = draw(st.lists(st.tuples(names, words), max_size=2))
    asked = "&".join(f"{key}={value}" for key, value in query)
    return "/".join(filled) + draw(st.sampled_from(["", "/", "?"])) + asked


@st.composite
def requests(draw: st.DrawFn, name: str) -> tuple[str, str, dict[str, str], str]:
    methods = ["GET", "POST", "PATCH", "PUT", "HEAD", "DELETE", "OPTIONS"]
    method = draw(st.sampled_from(methods))
    return method, draw(paths(name)), draw(headers), draw(bodies)


Open = Callable[[str, Sequence[Mapping[str, Any]]], Service]


@pytest.fixture
def services(cluster: Cluster) -> Iterator[Open]:
    """Open services with faults of one's own."""
    with ExitStack() as closing:

        def open_one(name: str, faults: Sequence[Mapping[str, Any]]) -> Service:
            seed, given_settings = WORLDS[name]
            template = Template(cluster, Seed(seed))
            closing.callback(template.close)
            clone = make_clone(cluster.filler(), template, Access(Rights.READ))
            closing.callback(clone.close)
            both = {"faults": faults, **given_settings}
            service = open_service(name, clone, both, lambda: 1_705_000_000.0)
            closing.callback(service.close)
            return service

        yield open_one


def test_every_service_is_asked() -> None:
    assert WORLDS.keys() == SERVICES.keys()


def ask(service: Service, request: tuple[str, str, dict[str, str], str]) -> None:
    before = len(service.exchanges)

    answer = service.request(*request, 1)

    (seen,) = service.exchanges[before:]
    assert 200 <= answer.status < 600
    assert answer.status != 500
    assert all(isinstance(value, str) for value in answer.headers.values())
    assert json.loads(json.dumps(asdict(seen)))["status"] == seen.status


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("faults", [(), FAULTS], ids=["calm", "in trouble"])
def test_each_route_answers_what_is_hostile(
    services: Open, name: str, faults: Sequence[Mapping[str, Any]]
) -> None:
    service = services(name, faults)

    for operation in SERVICES[name].operations:
        gap = operation.path.partition("{")[2].partition("}")[0]
        for word, body in product(HOSTILE, BODIES):
            path = operation.path.replace(f"{{{gap}}}", word)
            ask(service, (operation.method, path, {}, body))


@pytest.mark.parametrize("name", WORLDS)
def test_every_request_is_answered_and_recorded(services: Open, name: str) -> None:
    service = services(name, FAULTS)

    @settings(
        max_examples=300,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(requests(name))
    def check(request: tuple[str, str, dict[str, str], str]) -> None:
        ask(service, request)

    check()
