"""How the processes of a verifier's sandbox speak: framed JSON and passed files."""

from __future__ import annotations

import array
import os
import select
import socket
import time
from typing import Any

from rlvr_envs.sandbox.inside import plain

MAX_FDS = 4


class Ended(Exception):
    """The other side closed."""


class Late(Exception):
    """The other side did not answer in time."""


def send(fd: int, data: Any) -> None:
    """Write one frame.

    Raises:
        NotPlain: If it is too large.
        Ended: If nobody reads any more.
    """
    raw = plain.dumps(data)
    view = memoryview(len(raw).to_bytes(4, "big") + raw)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except BrokenPipeError:
        raise Ended from None


def receive(fd: int, *, deadline: float | None = None) -> Any:
    """Read one frame.

    Args:
        fd: Read to the end of the frame, never past it.
        deadline: On `time.monotonic`; None waits for ever.

    Raises:
        Ended: If the other side closed, in the middle of a frame too.
        Late: If the deadline passed.
        ValueError: If the frame is not strict JSON or too large.
    """
    size = int.from_bytes(_exactly(fd, 4, deadline), "big")
    if size > plain.MAX_BYTES:
        raise ValueError(f"a frame of {size} bytes")
    return plain.loads(_exactly(fd, size, deadline))


def _exactly(fd: int, size: int, deadline: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        if deadline is not None:
            _wait(fd, deadline)
        piece = os.read(fd, min(size - len(parts), 1 << 16))
        if not piece:
            raise Ended
        parts += piece
    return bytes(parts)


def _wait(fd: int, deadline: float) -> None:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    left = deadline - time.monotonic()
    if left <= 0 or not poller.poll(left * 1000):
        raise Late


def send_with(sock: socket.socket, data: bytes, fds: list[int]) -> None:
    """Send a message with open files attached."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    sock.sendmsg([data], rights if fds else [])


def receive_with(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a message and the files attached to it; empty when the peer closed."""
    fds = array.array("i")
    data, ancillary, _flags, _address = sock.recvmsg(
        1 << 16, socket.CMSG_SPACE(MAX_FDS * fds.itemsize)
    )
    for level, kind, raw in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(raw[: len(raw) - len(raw) % fds.itemsize])
    for fd in fds:
        os.set_inheritable(fd, False)  # noqa: FBT003 (its signature)
    return data, list(fds)
