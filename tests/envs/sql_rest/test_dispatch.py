"""The dispatch desk: parcels, and other companies' recorded answers about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rlvr_envs.envs.sql_rest.services import dispatch_tables as tables
from rlvr_envs.envs.sql_rest.services.catalogue import open_service
from rlvr_envs.envs.sql_rest.services.service import Service
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.templates import Template

PARCELS = [
    (f"P-{n}", 100 + n, f"R {n}", "CH", "8001", 5000, "IN_TRANSIT", None, 1)
    for n in (1, 2, 3)
]
SAID = {"status": "delivered", "at": "2024-01-02"}
EXCHANGES = [
    tables.tracked("R%201", {}, status=503),
    tables.tracked("R%201", SAID),
    tables.tracked("R%202", "<html>", status=200),
    tables.tracked("R%203", {}, status=410),
    tables.quoted("R 1", "CH", 5000, 385),
    tables.unquoted("R 2", "CH", 5000, code="UNAVAILABLE", details="later"),
    tables.unquoted("R 3", "CH", 5000, code="PERMISSION_DENIED", details="no"),
]

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def template(cluster: Cluster) -> Iterator[Template]:
    made = Template(cluster, Seed(tables.SCHEMA + tables.PARCELS.inserts(PARCELS)))
    yield made
    made.close()


@pytest.fixture
def desk(cluster: Cluster, template: Template) -> Iterator[Service]:
    clone: Clone = make_clone(cluster.filler(), template, Access(Rights.READ))
    service = open_service("dispatch", clone, {"exchanges": EXCHANGES}, lambda: 0.0)
    yield service
    service.close()
    clone.close()


@pytest.fixture
def ask(desk: Service) -> Ask:
    def request(method: str, path: str, body: Any = None, **headers: str) -> Any:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        text = json.dumps(body) if body is not None else ""
        answer = desk.request(method, path, given, text, 1)
        return answer.status, json.loads(answer.body)

    return request


def test_the_carrier_is_asked_again_and_again(desk: Service, ask: Ask) -> None:
    first = desk.request("GET", "/parcels/P-1/tracking", {}, "", 1)

    assert (first.status, first.headers["retry-after"]) == (503, "1")
    for _ in range(2):
        told = ask("GET", "/parcels/P-1/tracking")
        assert told == (200, {"id": "P-1", "carrier": SAID})
    assert [call.status for call in desk.outbound] == ["503", "200", "200"]


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/parcels/P-2/tracking", 502, "The carrier's answer cannot be read."),
        ("/parcels/P-3/tracking", 502, "The carrier answered 410."),
        ("/parcels/P-2/duty", 503, "The customs say UNAVAILABLE: later"),
        ("/parcels/P-3/duty", 502, "The customs say PERMISSION_DENIED: no"),
        ("/parcels/P-9/duty", 404, "There is no such parcel."),
    ],
)
def test_what_others_refuse_is_told(
    ask: Ask, path: str, status: int, told: str
) -> None:
    assert ask("GET", path) == (status, {"detail": told})


def test_the_customs_tell_a_duty(ask: Ask) -> None:
    assert ask("GET", "/parcels/P-1/duty") == (200, {"id": "P-1", "duty_cents": 385})


def test_what_nobody_recorded_is_a_bad_gateway(desk: Service, ask: Ask) -> None:
    moved = "UPDATE public.parcels SET value_cents = 1, reference = 'R 9'"
    desk._episode.rows(moved)

    assert ask("GET", "/parcels/P-1/tracking")[0] == 502
    assert ask("GET", "/parcels/P-1/duty")[0] == 502
    assert [call.status for call in desk.outbound] == ["", ""]
    assert [seen.status for seen in desk.exchanges] == [502, 502]


def test_a_parcel_is_set_by_whoever_read_it_last(ask: Ask) -> None:
    body = {"status": "AT_CUSTOMS", "duty_cents": 385}

    assert ask("PATCH", "/parcels/P-1", body)[0] == 428
    assert ask("PATCH", "/parcels/P-1", body, If_Match='"2"')[0] == 412
    status, now = ask("PATCH", "/parcels/P-1", body, If_Match='"1"')

    assert (status, now["status"], now["duty_cents"], now["version"]) == (
        200,
        "AT_CUSTOMS",
        385,
        2,
    )


def test_pages_of_parcels_follow_each_other(ask: Ask) -> None:
    _, first = ask("GET", "/parcels?limit=2&status=IN_TRANSIT")
    _, rest = ask("GET", f"/parcels?limit=2&after={first['next']}")

    assert [row["id"] for row in first["parcels"]] == ["P-1", "P-2"]
    assert ([row["id"] for row in rest["parcels"]], rest["next"]) == (["P-3"], None)
