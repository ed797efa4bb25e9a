"""The stand-ins of the network, answered from outside the sandbox."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, cast

import dns.message
import dns.rcode
import pytest

from rlvr_envs.confinement import EgressRule, Exchange
from rlvr_envs.records import Event
from rlvr_envs.sandbox.base import Capability, Sandbox
from rlvr_envs.sandbox.egress import Egress

PAGE = "http://api.test/v1/items"


class Loopback:
    """A sandbox double whose listeners stand on the host's loopback."""

    def __init__(self) -> None:
        self.packets = 5
        self.ports: dict[int, int] = {}

    @classmethod
    def capabilities(cls) -> frozenset[Capability]:
        return frozenset({Capability.EGRESS_EVENTS, Capability.HARNESS_LISTENERS})

    def listen(self, kind: socket.SocketKind, address: str, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET, kind)
        sock.bind((address, 0))
        if kind is socket.SOCK_STREAM:
            sock.listen()
        self.ports[port] = sock.getsockname()[1]
        return sock

    def unrouted(self) -> int:
        return self.packets


@pytest.fixture
def world() -> Iterator[tuple[Loopback, Egress]]:
    exchange = Exchange("GET", PAGE, 200, (("X-From", "tape"),), b"[1]")
    rule = EgressRule({"db.test": "10.0.0.9"}, (exchange,))
    sandbox = Loopback()
    egress = Egress(cast("Sandbox", sandbox), rule)
    egress.start()
    egress.begin()
    yield sandbox, egress
    egress.close()


def ask(world: Loopback, name: str, kind: str = "A") -> Any:
    query = dns.message.make_query(name, kind)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(5)
        sock.sendto(query.to_wire(), ("127.0.0.1", world.ports[53]))
        return dns.message.from_wire(sock.recv(4096))


def get(world: Loopback, path: str, host: str) -> bytes:
    with socket.create_connection(("127.0.0.1", world.ports[80]), 5) as sock:
        head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        sock.sendall(head.encode())
        answer = b""
        while data := sock.recv(4096):
            answer += data
    return answer


def test_pinned_names_resolve_and_others_do_not_exist(
    world: tuple[Loopback, Egress],
) -> None:
    sandbox, egress = world

    assert "10.0.0.9" in str(ask(sandbox, "DB.test").answer[0])
    assert ask(sandbox, "x1y2.example.com").rcode() == dns.rcode.NXDOMAIN
    assert ask(sandbox, "db.test", "AAAA").answer == []
    assert [(item.kind, item.detail, item.count) for item in egress.collect()] == [
        ("dns", "db.test", 2),
        ("dns", "x1y2.example.com", 1),
    ]


def test_a_recorded_exchange_is_replayed_and_its_host_resolves(
    world: tuple[Loopback, Egress],
) -> None:
    sandbox, egress = world

    answer = get(sandbox, "/v1/items", "api.test")

    assert answer.startswith(b"HTTP/1.1 200")
    assert b"X-From: tape" in answer
    assert answer.endswith(b"[1]")
    assert "127.0.0.1" in str(ask(sandbox, "api.test").answer[0])
    assert Event("http", 1, f"GET {PAGE}") in egress.collect()


def test_a_request_that_was_not_recorded_is_refused_and_seen(
    world: tuple[Loopback, Egress],
) -> None:
    sandbox, egress = world

    assert get(sandbox, "/other", "api.test").startswith(b"HTTP/1.1 502")
    assert Event("http", 1, "GET http://api.test/other") in egress.collect()


def test_attempts_to_leave_are_counted_once(world: tuple[Loopback, Egress]) -> None:
    sandbox, egress = world
    assert egress.collect() == ()

    sandbox.packets = 8

    assert egress.collect() == (Event("egress", 3, "no route"),)
    assert egress.collect() == ()


def test_a_datagram_that_is_no_query_gets_no_answer(
    world: tuple[Loopback, Egress],
) -> None:
    sandbox, egress = world

    assert egress.answer(b"\xff" * 40) is None
    assert egress.answer(b"") is None
    assert ask(sandbox, "db.test").answer


def test_close_is_idempotent(world: tuple[Loopback, Egress]) -> None:
    _, egress = world

    egress.close()
    egress.close()
