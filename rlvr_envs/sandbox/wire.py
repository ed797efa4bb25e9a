"""Packets to the launcher and its init; the protocol is described in launcher.c."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from rlvr_envs.errors import SandboxError

MAX_PACKET = 200_000
"""Bytes; the kernel's default socket buffer holds one packet of this size."""

_MAX_FDS = 64
_SHORT_CHARS = 256
_ANSWER_BYTES = 4096


class Refused(SandboxError):
    """The launcher could not do something.

    Attributes:
        code: What the kernel answered, an errno.
        step: What was being done.
    """

    def __init__(self, code: int, step: str) -> None:
        super().__init__(
            f"The sandbox failed while {step}: {os.strerror(code)} (errno {code})."
        )
        self.code = code
        self.step = step


@dataclass(slots=True)
class Packet:
    """A list of fields, with descriptors beside it."""

    data: bytearray = field(default_factory=bytearray)
    fds: list[int] = field(default_factory=list)

    def add(self, *fields: str | bytes | int | Path) -> None:
        """Append fields.

        Raises:
            ValueError: If one contains a NUL byte.
        """
        words = [_encoded(item) for item in fields]
        text = b"\0".join([*words, b""])
        if text.count(0) != len(words):
            word = next(word for word in words if 0 in word)
            raise ValueError(f"A NUL byte cannot be passed on: {word[:80]!r}.")
        self.data += text

    def around(self, before: Packet, after: Packet) -> Packet:
        """Return a new packet: this one between two that carry no descriptors."""
        return Packet(before.data + self.data + after.data, list(self.fds))

    def place(self, fd: int | None) -> str:
        """Append a descriptor; return the word that names it in a field."""
        if fd is None:
            return "-"
        self.fds.append(fd)
        return str(len(self.fds) - 1)

    def send(self, channel: socket.socket) -> None:
        """Send it in one piece.

        Raises:
            ValueError: If it is too large.
            OSError: If the channel is closed or stays full.
        """
        if len(self.data) > MAX_PACKET or len(self.fds) > _MAX_FDS:
            raise ValueError(
                f"A request of {len(self.data)} bytes and {len(self.fds)} descriptors "
                f"is too large; at most {MAX_PACKET} and {_MAX_FDS}."
            )
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", self.fds))
        channel.sendmsg([self.data], [rights] if self.fds else [], socket.MSG_NOSIGNAL)


def _encoded(item: str | bytes | int | Path) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, int):
        return b"%d" % item
    text = item if isinstance(item, str) else str(item)
    return _encoded_short(text) if len(text) < _SHORT_CHARS else os.fsencode(text)


@lru_cache(maxsize=1024)
def _encoded_short(text: str) -> bytes:
    """Most fields are the same in every packet."""
    return os.fsencode(text)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: its fields, descriptors, and the sender's pid (0 if unknown)."""

    fields: Sequence[str]
    fds: Sequence[int] = ()
    pid: int = 0

    def checked(self) -> Answer:
        """Return it, if it is no refusal.

        Raises:
            Refused: If it is.
        """
        if self.fields[0] == "error":
            self.close()
            raise Refused(int(self.fields[1]), self.fields[2])
        return self

    def close(self) -> None:
        """Close the descriptors that came with it."""
        for fd in self.fds:
            os.close(fd)


def receive(channel: socket.socket, flags: int = 0) -> Answer | None:
    """Receive one answer; None at the end of the channel.

    Raises:
        OSError: As ``recvmsg`` does.
    """
    space = socket.CMSG_SPACE(8 * 4) + socket.CMSG_SPACE(12)
    data, ancillary, _, _ = channel.recvmsg(_ANSWER_BYTES, space, flags)
    fds = array.array("i")
    credentials = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
        elif level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            credentials.frombytes(content)
    if not data:
        return None
    return Answer(_fields(data), tuple(fds), credentials[0] if credentials else 0)


def receive_plain(channel: socket.socket) -> Answer | None:
    """Receive an answer that comes without descriptors; None at the end.

    Raises:
        OSError: As ``recv`` does.
    """
    data = channel.recv(_ANSWER_BYTES)
    return Answer(_fields(data)) if data else None


def _fields(data: bytes) -> list[str]:
    return data.decode(errors="replace").split("\0")
