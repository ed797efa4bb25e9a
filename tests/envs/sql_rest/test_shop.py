"""The mock shop: what it answers, what it writes, and what it keeps to itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rlvr_envs.envs.sql_rest.services import shop_tables as tables
from rlvr_envs.envs.sql_rest.services.asgi import Answer
from rlvr_envs.envs.sql_rest.services.catalogue import SERVICES, open_service
from rlvr_envs.envs.sql_rest.services.service import Service
from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.templates import Template
from rlvr_envs.tasks.tables import Rows, Table

EPOCH_S = 1_705_000_000.0
ROWS: dict[Table, Rows] = {
    tables.CUSTOMERS: [("C-1", "Ada", "ada@example.org", "555-1")],
    tables.STOCK: [("LAMP", "Lamp", 1)],
    tables.ORDERS: [
        (n, "C-1", "DELIVERED", "2024-01-01", "2024-01-05", "2024-01-04", 8500, 0, 1)
        for n in (170, 171, 172)
    ],
    tables.LINES: [(170, 1, "LAMP", "Lamp", 1, 8500)],
    tables.POLICIES: tables.policies({"refunds": {"days": 30}}),
    tables.RISKS: [(170, 40)],
    tables.TICKETS: [
        ("T-1", "C-1", 170, "OPEN", "2024-01-10T10:00Z", "2024-01-10T11:00Z", "s", "m")
    ],
}
REFUND = {"cents": 4250, "reason": "damaged"}


class Shop:
    """The shop of one episode; each request is a turn of one second."""

    def __init__(self, clone: Clone, **settings: Any) -> None:
        self.clone = clone
        self.turn = 0
        self.service: Service = open_service(
            "shop", clone, settings, lambda: EPOCH_S + self.turn
        )

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        self.turn += 1
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        text = body if isinstance(body, str) else json.dumps(body) if body else ""
        return self.service.request(method, path, given, text, self.turn)

    def refund(self, **headers: str) -> Answer:
        return self.ask("POST", "/orders/170/refunds", REFUND, **headers)

    def one(self, statement: str) -> Any:
        row = self.clone.admin.execute(statement.encode()).fetchone()
        assert row is not None
        return row[0]

    @property
    def refunded(self) -> int:
        return int(self.one("SELECT sum(refunded_cents) FROM public.orders"))


Open = Callable[..., Shop]


@pytest.fixture(scope="module")
def template(cluster: Cluster) -> Iterator[Template]:
    made = Template(cluster, Seed(tables.database(ROWS)))
    yield made
    made.close()


@pytest.fixture
def shop(cluster: Cluster, template: Template) -> Iterator[Open]:
    """Open shops with settings of one's own."""
    clones: list[Clone] = []
    opened: list[Shop] = []

    def open_shop(**settings: Any) -> Shop:
        clones.append(make_clone(cluster.filler(), template, Access(Rights.READ)))
        opened.append(Shop(clones[-1], **settings))
        return opened[-1]

    yield open_shop
    for item in opened:
        item.service.close()
    for clone in clones:
        clone.close()
    cluster.settle()


def told(answer: Answer) -> Any:
    return json.loads(answer.body)


def test_a_refund_changes_the_order_and_is_one_row(shop: Open) -> None:
    here = shop()

    made = here.refund()

    assert (made.status, told(made)["id"]) == (201, "rf_0001")
    assert told(here.ask("GET", "/orders/170"))["status"] == "PARTIALLY_REFUNDED"
    assert told(here.ask("GET", "/orders/170/refunds"))["refunds"] == [told(made)]


def test_a_key_makes_a_retry_harmless_and_nothing_else_does(shop: Open) -> None:
    here = shop()
    first = here.refund(idempotency_key="k")

    again = here.refund(idempotency_key="k")
    other = here.ask(
        "POST", "/orders/170/refunds", {**REFUND, "cents": 1}, idempotency_key="k"
    )
    once = here.refunded
    here.refund()

    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers["idempotent-replayed"] == "true"
    assert other.status == 422
    assert (once, here.refunded) == (4250, 8500)


def test_a_lost_answer_leaves_the_work_done(shop: Open) -> None:
    here = shop(faults=[{"operation": "create_refund", "status": 503, "when": "after"}])

    lost = here.refund(idempotency_key="k")
    again = here.refund(idempotency_key="k")

    assert (lost.status, lost.headers["retry-after"]) == (503, "1")
    assert (again.status, here.refunded) == (201, 4250)
    assert [item.status for item in here.service.exchanges] == [201, 201]


def test_whoever_comes_before_retry_after_is_refused_again(shop: Open) -> None:
    here = shop(
        faults=[{"operation": "create_refund", "status": 429, "retry_after_s": 3}]
    )

    statuses = [here.refund().status for _ in range(4)]

    assert statuses == [429, 429, 429, 201]
    assert here.refunded == 4250


def test_a_stale_version_is_refused(shop: Open) -> None:
    moved = "UPDATE public.orders SET version = 2 WHERE id = 170"
    here = shop(rivals=[{"before": "first_write", "statements": [moved]}])
    tag = here.ask("GET", "/orders/170").headers["etag"]

    refused = here.ask("PATCH", "/orders/170", {"status": "SHIPPED"}, if_match=tag)
    lacking = here.ask("PATCH", "/orders/170", {"status": "SHIPPED"})
    done = here.ask("PATCH", "/orders/170", {"status": "SHIPPED"}, if_match='"2"')

    assert (refused.status, lacking.status, done.status) == (412, 428, 200)
    assert here.one("SELECT version FROM public.orders WHERE id = 170") == 3


def test_a_rival_acts_when_its_turn_has_come(shop: Open) -> None:
    sold = "UPDATE public.stock SET available = 0"
    here = shop(rivals=[{"before": "turn:2", "statements": [sold]}])

    seen = [told(here.ask("GET", "/stock/LAMP"))["available"] for _ in range(3)]

    assert seen == [1, 0, 0]


def test_pages_follow_each_other(shop: Open) -> None:
    here = shop()

    first = told(here.ask("GET", "/orders?limit=2"))
    rest = told(here.ask("GET", f"/orders?limit=2&after={first['next']}"))

    assert [order["id"] for order in first["orders"]] == [170, 171]
    assert ([order["id"] for order in rest["orders"]], rest["next"]) == ([172], None)


BROKEN = {
    "a key twice": ('{"cents": 0, "cents": 10, "reason": "x"}', 400),
    "no JSON": ("cents=10", 400),
    "a number in quotes": ('{"cents": "10", "reason": "x"}', 422),
    "a field too many": ('{"cents": 10, "reason": "x", "is_refunded": true}', 422),
    "a fraction": ('{"cents": 10.5, "reason": "x"}', 422),
    "NaN": ('{"cents": NaN, "reason": "x"}', 400),
    "nothing": ('{"cents": 0, "reason": "x"}', 422),
    "more than was paid": ('{"cents": 8501, "reason": "x"}', 409),
    "a null byte": ('{"cents": 10, "reason": "\\u0000"}', 422),
}


@pytest.mark.parametrize(("body", "status"), BROKEN.values(), ids=BROKEN)
def test_a_wrong_body_writes_nothing(shop: Open, body: str, status: int) -> None:
    here = shop()

    answer = here.ask("POST", "/orders/170/refunds", body)

    assert (answer.status, here.refunded) == (status, 0)


@pytest.mark.parametrize(
    "path",
    ["/__admin/state", "/__grader/reward", "/admin", "/docs", "orders", "//orders", "/orders/x"],
)  # fmt: skip
def test_what_is_no_route_is_not_there(shop: Open, path: str) -> None:
    here = shop()

    answer = here.ask("GET", path)

    assert answer.status in (400, 404)
    assert here.service.exchanges[0].operation == ""


def test_an_order_number_beyond_every_integer_is_no_order(shop: Open) -> None:
    assert shop().ask("GET", "/orders/99999999999999999999").status == 404


def test_what_was_asked_is_on_record_as_validated(shop: Open) -> None:
    here = shop()
    here.ask("GET", "/orders/000170?x=1")
    here.refund(Idempotency_Key="k")

    read, wrote = here.service.exchanges

    assert (read.operation, read.reads) == ("get_order", True)
    assert read.parameters == {"order_id": 170, "x": "1"}
    assert wrote.parameters == {"order_id": 170, **REFUND}
    assert (wrote.turn, wrote.idempotency_key, wrote.status) == (2, "k", 201)


def test_webhooks_reach_the_sink_with_their_key(shop: Open) -> None:
    here = shop(sink={"statuses": [503]})
    here.refund()
    body = {"event": "order.refunded", "order_id": 170}

    first = here.ask("POST", "/notifications", body, idempotency_key="n")
    second = here.ask("POST", "/notifications", body, idempotency_key="n")
    third = here.ask("POST", "/notifications", body, idempotency_key="n")

    sent = here.service.deliveries
    assert (first.status, second.status, third.status) == (502, 200, 200)
    assert [(item.status, item.idempotency_key) for item in sent] == [
        (503, "n"),
        (200, "n"),
    ]
    assert sent[1].body["refunded_cents"] == 4250


def test_a_supervisor_answers_after_a_while_and_within_limits(shop: Open) -> None:
    here = shop(approvals={"after_s": 2, "up_to_cents": 5000})
    body = {"operation": "create_refund", "order_id": 170, "reason": "x"}

    for cents in (5000, 5001):
        here.ask("POST", "/approvals", {**body, "cents": cents})
    states = [
        told(here.ask("GET", f"/approvals/{name}"))["state"]
        for name in ("ap_0002", "ap_0001", "ap_0002", "ap_0001")
    ]

    assert states == ["PENDING", "GRANTED", "DECLINED", "GRANTED"]
    assert here.one("SELECT count(*) FROM public.approvals") == 1


def test_a_ticket_ends_once(shop: Open) -> None:
    here = shop()

    first = here.ask("POST", "/tickets/T-1/close")
    second = here.ask("POST", "/tickets/T-1/escalate")

    assert (told(first)["status"], second.status) == ("CLOSED", 409)
    assert told(here.ask("GET", "/tickets/T-1"))["status"] == "CLOSED"


def test_a_head_request_has_no_body(shop: Open) -> None:
    answer = shop().ask("HEAD", "/orders/170")

    assert (answer.status, answer.body, answer.headers["etag"]) == (200, "", '"1"')


def test_the_page_of_the_api_names_every_operation(shop: Open) -> None:
    paths = told(shop().ask("GET", "/openapi.json"))["paths"]

    named = {row["operationId"] for path in paths.values() for row in path.values()}
    assert named == {row.name for row in SERVICES["shop"].operations}
    assert all(
        row.reads == (row.method == "GET") for row in SERVICES["shop"].operations
    )


@pytest.mark.parametrize("name", SERVICES)
def test_a_description_fits_into_one_observation(name: str) -> None:
    described = json.dumps(SERVICES[name].app.openapi(), separators=(",", ":"))

    # What is left of 8192 bytes is for status and headers.
    assert len(described.encode()) < 8000


SPOILT = {
    "no policy": ("UPDATE public.policies SET content = '[1]'", "/policies/refunds", 500),
    "half a policy": ("UPDATE public.policies SET content = '{'", "/policies/refunds", 500),
    "the end of days": (
        "UPDATE public.orders SET placed_on = 'infinity'", "/orders/170", 422,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("statement", "path", "status"), SPOILT.values(), ids=SPOILT)
def test_what_a_writer_spoils_breaks_no_world(
    shop: Open, statement: str, path: str, status: int
) -> None:
    here = shop()
    here.clone.admin.execute(statement.encode())

    assert here.ask("GET", path).status == status
    assert here.ask("GET", "/orders/999").status == 404


@pytest.mark.parametrize("state", ["57P01", "53100", "40P01", "XX000"])
def test_a_trigger_cannot_pass_for_a_dying_server(shop: Open, state: str) -> None:
    here = shop()
    here.clone.admin.execute(
        "CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END $$;"
        "CREATE TRIGGER t BEFORE UPDATE ON public.orders"
        " FOR EACH ROW EXECUTE FUNCTION public.f()".encode()
    )

    assert here.refund().status in (409, 503)
    assert here.ask("GET", "/orders/170").status == 200


def test_a_lost_database_voids(shop: Open) -> None:
    here = shop()
    here.service.close()

    with pytest.raises(SandboxError, match="lost its database"):
        here.ask("GET", "/orders/170")


def test_two_hundred_requests_refund_no_more_than_was_paid(shop: Open) -> None:
    here = shop()

    keyed = {here.refund(Idempotency_Key="k").status for _ in range(200)}
    once = here.refunded
    plain = [here.refund().status for _ in range(200)]

    assert (keyed, once) == ({201}, 4250)
    assert (plain, here.refunded) == ([201] + [409] * 199, 8500)


def test_the_service_cannot_change_definitions(shop: Open) -> None:
    here = shop()

    with pytest.raises(Exception, match="must be owner"):
        here.service._episode.rows("DROP TABLE public.refunds")


def test_a_service_that_is_not_there_is_the_worlds_fault(shop: Open) -> None:
    with pytest.raises(SandboxError, match="known: shop"):
        open_service("bank", shop().clone, {}, lambda: 0.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"faults": [{"status": 418}]},
        {"faults": [{"status": 503, "often": 2}]},
        {"faults": [{"status": 503, "operation": "create_refunds"}]},
        {"rivals": [{"before": "noon", "statements": []}]},
    ],
)
def test_a_wrong_setting_is_named(shop: Open, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^A (fault|rival) "):
        shop(**settings)
