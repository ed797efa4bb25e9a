"""A real client of gRPC finds over its wire what was recorded, and nothing else."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.envs.sql_rest.services import messages
from rlvr_envs.envs.sql_rest.services.recorded import RPC_CODES, Recorded, rpc_row
from rlvr_envs.envs.sql_rest.services.rpc_door import RpcDoor
from rlvr_envs.relational import Outbound

grpc: Any = pytest.importorskip("grpc")

RPC = "/things.v1.Things/Get"
ASKED = messages.encode({1: "170"})
BYTES = bytes(range(256))


class Client:
    """A channel whose messages are bytes already."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.recorded = Recorded(rows)
        self.door = RpcDoor(self.recorded, lambda: 7)
        self._channel = grpc.insecure_channel(self.door.target)

    def call(self, request: bytes, rpc: str = RPC) -> tuple[str, bytes | str]:
        try:
            return "OK", self._channel.unary_unary(rpc)(request, timeout=30)
        except grpc.RpcError as error:
            return error.code().name, error.details()

    def close(self) -> None:
        self._channel.close()
        self.door.close()


@pytest.fixture
def opened() -> Iterator[list[Client]]:
    clients: list[Client] = []
    yield clients
    for client in clients:
        client.close()


def client_of(opened: list[Client], *rows: dict[str, Any]) -> Client:
    opened.append(Client(list(rows)))
    return opened[-1]


def test_bytes_come_back_as_they_were_recorded(opened: list[Client]) -> None:
    client = client_of(opened, rpc_row(RPC, ASKED, BYTES))

    assert client.call(ASKED) == ("OK", BYTES)
    assert client.recorded.calls == [Outbound(7, "", RPC, "OK")]


def test_an_empty_message_is_a_message(opened: list[Client]) -> None:
    client = client_of(opened, rpc_row(RPC, b"", b""))

    assert client.call(b"") == ("OK", b"")


def test_every_code_arrives_by_its_own_name(opened: list[Client]) -> None:
    codes = sorted(RPC_CODES - {"OK"})
    rows = [rpc_row(RPC, c.encode(), code=c, details=f"was {c}") for c in codes]
    client = client_of(opened, *rows)

    assert [client.call(c.encode()) for c in codes] == [(c, f"was {c}") for c in codes]


def test_recordings_of_one_request_come_in_order_and_the_last_stays(
    opened: list[Client],
) -> None:
    busy = rpc_row(RPC, ASKED, code="UNAVAILABLE", details="later")
    client = client_of(opened, busy, rpc_row(RPC, ASKED, b"now"))

    answers = [client.call(ASKED) for _ in range(3)]

    assert answers == [("UNAVAILABLE", "later"), ("OK", b"now"), ("OK", b"now")]


@pytest.mark.parametrize(
    ("rpc", "request_"), [("/other.v1.Things/Get", ASKED), (RPC, ASKED + b"\x00")]
)
def test_what_nobody_recorded_is_unimplemented_and_noted(
    opened: list[Client], rpc: str, request_: bytes
) -> None:
    client = client_of(opened, rpc_row(RPC, ASKED, BYTES))

    code, _ = client.call(request_, rpc)

    assert code == "UNIMPLEMENTED"
    assert client.recorded.calls == [Outbound(7, "", rpc, "")]


def test_nobody_else_enters_and_nothing_is_left() -> None:
    client = Client([rpc_row(RPC, ASKED)])
    folder = Path(client.door.target.removeprefix("unix:")).parent
    mode = stat.S_IMODE(folder.stat().st_mode)
    client.call(ASKED)

    client.close()
    client.door.close()

    assert mode == 0o700
    assert not folder.exists()
