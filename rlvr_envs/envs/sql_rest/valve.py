"""Between a server and libpq: no message passes that is larger than what is shown.

libpq holds each message whole before anybody may ask for its size, so that one value
of an agent's would take its size several times over in the trainer.

Source:
    PostgreSQL documentation, "Message Formats", version 3 of the protocol.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
from typing import Protocol

_HEADER = struct.Struct("!cI")
_CHUNK = 65_536
_TOLD_BYTES = 16_384
"""Of an error or a notice; what is cut off is the values that it quotes."""

_CUT = b" [... cut]\0\0"


class Link(Protocol):
    """What the valve needs of a connection of libpq's."""

    @property
    def socket(self) -> int:
        """Its descriptor."""

    @property
    def ssl_in_use(self) -> bool:
        """Whether what crosses is encrypted."""

    @property
    def used_gssapi(self) -> bool:
        """Whether it may be, in another way."""


class Filter:
    """Reads a server's messages as they come and replaces those that are too large.

    Args:
        limit_bytes: Of one row's values, and of one piece of a copy.

    Attributes:
        rows: Rows seen since the last `begin`.
        omitted: Number of a row, from 1, to the size of the values it had; in its
            place comes one of NULLs.
        copy_bytes: How much was cut off the pieces of a copy.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held = bytearray()
        self._passing = 0
        self._skipping = 0
        self.begin()

    def begin(self) -> None:
        """Count from here on."""
        self.rows = 0
        self.omitted: dict[int, int] = {}
        self.copy_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Take in what the server sent; return what may pass."""
        self._held += data
        out = bytearray()
        while self._step(out):
            pass
        return bytes(out)

    def _step(self, out: bytearray) -> bool:
        """Go on by one piece; return whether there may be another."""
        if self._skipping:
            self._skipping -= self._take(self._skipping, bytearray())
            return not self._skipping and bool(self._held)
        if self._passing:
            self._passing -= self._take(self._passing, out)
            return not self._passing and bool(self._held)
        if len(self._held) < _HEADER.size:
            return False
        kind, length = _HEADER.unpack_from(self._held)
        return self._message(kind, length, out)

    def _take(self, most: int, out: bytearray) -> int:
        piece = self._held[:most]
        del self._held[: len(piece)]
        out += piece
        return len(piece)

    def _message(self, kind: bytes, length: int, out: bytearray) -> bool:
        self.rows += kind == b"D"
        most = self._most(kind)
        if most is None or length <= most:
            self._passing = length + 1
            return True
        needed = _HEADER.size + (2 if kind == b"D" else most)
        if len(self._held) < needed:
            self.rows -= kind == b"D"
            return False
        begins = bytes(self._held[_HEADER.size : needed])
        out += self._shortened(kind, length, begins)
        self._skipping = length + 1
        return True

    def _most(self, kind: bytes) -> int | None:
        """Return how long a message of a kind may be; ``None`` for any length."""
        if kind == b"D" and len(self._held) >= _HEADER.size + 2:
            (columns,) = struct.unpack_from("!H", self._held, _HEADER.size)
            return int(self._limit_bytes + 6 + 4 * columns)
        limits = {b"D": self._limit_bytes, b"d": self._limit_bytes + 4}
        told = {b"E": _TOLD_BYTES, b"N": _TOLD_BYTES}
        return (limits | told).get(kind)

    def _shortened(self, kind: bytes, length: int, begins: bytes) -> bytes:
        body: bytes
        if kind == b"D":
            (columns,) = struct.unpack("!H", begins)
            self.omitted[self.rows] = length - 6 - 4 * columns
            body = begins + b"\xff\xff\xff\xff" * columns
        elif kind == b"d":
            body = begins[: self._limit_bytes]
            self.copy_bytes += length - 4 - len(body)
        else:
            body = begins.rstrip(b"\0") + _CUT
        return kind + struct.pack("!I", len(body) + 4) + body


class Valve:
    """Takes a connection's socket over; whoever waits for it calls `pump` as well.

    Args:
        link: Idle. What is encrypted cannot be filtered: see `fits`.
        limit_bytes: See `Filter`.
    """

    def __init__(self, link: Link, limit_bytes: int) -> None:
        self.filter = Filter(limit_bytes)
        self._server = socket.socket(fileno=os.dup(link.socket))
        ours, self._client = socket.socketpair()
        os.dup2(ours.fileno(), link.socket, inheritable=False)
        ours.close()
        os.set_blocking(link.socket, False)
        self._server.settimeout(0)
        self._client.settimeout(0)
        self._up = b""
        self._down = b""
        self._ended = False

    @staticmethod
    def fits(link: Link) -> bool:
        """Whether messages cross a connection in the clear."""
        return not (link.ssl_in_use or link.used_gssapi)

    def watch(self, poll: select.poll) -> None:
        """Have a poll return when there is something to move."""
        reads = 0 if self._ended or self._down else select.POLLIN
        poll.register(self._server, reads | (select.POLLOUT if self._up else 0))
        waits = select.POLLOUT if self._down else 0
        poll.register(self._client, waits | (0 if self._up else select.POLLIN))

    def pump(self) -> None:
        """Move what can be moved at once, in both directions."""
        with contextlib.suppress(OSError):
            self._up = self._up or self._client.recv(_CHUNK)
        with contextlib.suppress(OSError):
            while self._up:
                self._up = self._up[self._server.send(self._up) :]
        if not self._down and not self._ended:
            self._down = self._received()
        with contextlib.suppress(OSError):
            while self._down:
                self._down = self._down[self._client.send(self._down) :]
        if self._ended and not self._down:
            with contextlib.suppress(OSError):
                self._client.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go of the server; idempotent."""
        self._server.close()
        self._client.close()

    def _received(self) -> bytes:
        try:
            data = self._server.recv(_CHUNK)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self._ended = not data
        return self.filter.feed(data)
