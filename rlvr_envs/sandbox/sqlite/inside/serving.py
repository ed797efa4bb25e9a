"""A worker: opens one database, answers what it is asked, and dies when told."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

from rlvr_envs.sandbox.sqlite.inside.authority import Authority
from rlvr_envs.sandbox.sqlite.inside.comparing import as_it_is, compare
from rlvr_envs.sandbox.sqlite.inside.functions import Stream, install
from rlvr_envs.sandbox.sqlite.inside.statements import Bounds, Door, cell, state_of

_LENGTH = struct.Struct("!I")
_HEAP_BYTES = 256 << 20
_GROWTH_BYTES = 256 << 20
_BUSY_S = 0.2
_STEPS = 1_000
_NAMED = re.compile(r"%\((\w+)\)s|%(%)")

Message = Mapping[str, Any]


class Agent:
    """The agent's two sessions: one that lasts, and one that only looks.

    Args:
        order: ``path``, ``rights`` and ``closed``.
    """

    def __init__(self, order: Message) -> None:
        self._stream = Stream()
        self._lasting = self._door(order["path"], order["rights"], order["closed"])
        self._looking = self._door(order["path"], "read", ())

    def answer(self, asked: Message) -> Message:
        """Run one statement at a moment; see `Door.run`."""
        self._stream.epoch_s = asked["epoch_s"]
        self._stream.seed(asked["seed"])
        bounds = Bounds(asked["seconds"], asked["rows"], asked["size"])
        if asked["lasting"]:
            return self._lasting[1].run(asked["statement"], bounds)
        connection, door = self._looking
        answer = door.run(asked["statement"], bounds)
        if connection.in_transaction:
            door.run("ROLLBACK", bounds)
        return {**answer, "open": False}

    def _door(
        self, path: str, rights: str, closed: tuple[str, ...]
    ) -> tuple[sqlite3.Connection, Door]:
        connection = connect(path)
        # The engine counts ours as unsafe in defaults, as it does all that is not its.
        connection.execute("PRAGMA trusted_schema = ON")
        install(connection, self._stream)
        if rights == "read":
            connection.execute("PRAGMA query_only = ON")
        return connection, Door(connection, Authority(rights, closed))


class Grader:
    """Reads a database and the seed's it was copied from; writes neither.

    Args:
        order: ``path`` and ``base``.
    """

    def __init__(self, order: Message) -> None:
        self._now = connect(order["path"])
        self._base = connect(f"{order['base']}?mode=ro&immutable=1")
        for connection in (self._now, self._base):
            connection.execute("PRAGMA query_only = ON")

    def answer(self, asked: Message) -> Message:
        """Compare, or run one statement of a verifier's."""
        if asked["do"] == "compare":
            return self._compare(asked["limit_rows"])
        connection = self._base if asked["untouched"] else self._now
        return _ask(connection, asked)

    def _compare(self, limit_rows: int) -> Message:
        # One moment for all tables: the episode may still be alive.
        self._now.execute("BEGIN")
        try:
            return compare(self._base, self._now, limit_rows)
        finally:
            self._now.execute("ROLLBACK")
            for connection in (self._now, self._base):
                connection.text_factory = as_it_is


_ROLES: Mapping[str, Callable[[Message], Agent | Grader]] = {
    "agent": Agent,
    "grader": Grader,
}


def connect(path: str) -> sqlite3.Connection:
    """Open a file that must exist, with nothing in it to be trusted."""
    mode = "" if "?" in path else "?mode=rw"
    connection = sqlite3.connect(
        f"file:{path}{mode}",
        uri=True,
        isolation_level=None,
        timeout=_BUSY_S,
        cached_statements=0,
    )
    connection.text_factory = as_it_is
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    for setting in (
        "trusted_schema = OFF",
        "cell_size_check = ON",
        "mmap_size = 0",
        "temp_store = MEMORY",
        "synchronous = OFF",
        "foreign_keys = ON",
        f"hard_heap_limit = {_HEAP_BYTES}",
        f"max_page_count = {pages + _GROWTH_BYTES // size}",
    ):
        connection.execute(f"PRAGMA {setting}")
    return connection


def serve(channel: socket.socket) -> None:
    """Take an order, then answer until the other end closes."""
    order = receive(channel)
    if order is None:
        return
    try:
        role = _ROLES[order["role"]](order)
    except sqlite3.Error as error:
        send(channel, {"failure": str(error)})
        return
    send(channel, {})
    while (asked := receive(channel)) is not None:
        try:
            answer = role.answer(asked)
        except sqlite3.Error as error:
            answer = {"failure": f"{type(error).__name__}: {error}"}
        send(channel, answer)


def send(channel: socket.socket, message: Message) -> None:
    """Send one message."""
    data = json.dumps(message).encode("ascii")
    channel.sendall(_LENGTH.pack(len(data)) + data)


def receive(channel: socket.socket) -> Message | None:
    """Wait for one message; ``None`` once the other end is closed."""
    head = _exactly(channel, _LENGTH.size)
    if head is None:
        return None
    data = _exactly(channel, _LENGTH.unpack(head)[0])
    return None if data is None else json.loads(data)


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = channel.recv(size - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _ask(connection: sqlite3.Connection, asked: Message) -> Message:
    deadline = time.monotonic() + asked["seconds"]
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    statement = _NAMED.sub(lambda m: "%" if m[2] else f":{m[1]}", asked["statement"])
    try:
        cursor = connection.execute(statement, asked["values"])
        names = [str(column[0]) for column in cursor.description or ()]
        rows = [
            [cell(value) if isinstance(value, bytes) else value for value in row]
            for row in cursor.fetchmany(asked["rows"])
        ]
    except (sqlite3.Error, sqlite3.Warning) as error:
        return {"problem": f"{state_of(error)}: {error}"}
    finally:
        connection.set_progress_handler(None, 0)
    return {"names": names, "rows": rows}
