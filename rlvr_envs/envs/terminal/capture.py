"""Keeping a program's output within bounds, however much there is."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

BLOCK_BYTES = 1 << 16
EXCERPT_BYTES = 1 << 18


class Sink(Protocol):
    """Takes a stream; may have had enough of it."""

    full: bool

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of an output that becomes text.

    Attributes:
        omitted_bytes: What lay between head and tail; 0 if nothing did.
    """

    head: bytes
    tail: bytes = b""
    omitted_bytes: int = 0


class Capture:
    """Head and tail of a stream, and its length.

    Args:
        limit_bytes: What is kept, half head, half tail; at least 2.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.total = 0
        self.full = False
        self._half = max(1, limit_bytes // 2)
        self._head = bytearray()
        self._tail: deque[bytearray] = deque()
        self._tail_bytes = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(chunk)
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._feed_tail(chunk)

    def raw(self) -> bytes:
        """Return what was kept, with a line in between if bytes are missing."""
        part = self.excerpt(2 * self._half)
        if not part.omitted_bytes:
            return part.head + part.tail
        marker = f"\n[... {part.omitted_bytes} bytes were not kept ...]\n".encode()
        return part.head + marker + part.tail

    def excerpt(self, limit_bytes: int = EXCERPT_BYTES) -> Excerpt:
        """Return at most so many bytes of it, cut between characters.

        Args:
            limit_bytes: For head and tail together.
        """
        head, tail = bytes(self._head), b"".join(self._tail)[-self._half :]
        if len(head) + len(tail) == self.total:
            head = tail = head + tail
            if self.total <= limit_bytes:
                return Excerpt(head)
        half = limit_bytes // 2
        head, tail = _whole_end(head[:half]), _whole_start(tail[-half:])
        return Excerpt(head, tail, self.total - len(head) - len(tail))

    def _feed_tail(self, chunk: bytes) -> None:
        if not self._tail or len(self._tail[-1]) >= BLOCK_BYTES:
            self._tail.append(bytearray())
        self._tail[-1] += chunk
        self._tail_bytes += len(chunk)
        while self._tail_bytes - len(self._tail[0]) >= self._half:
            self._tail_bytes -= len(self._tail.popleft())


class LineWindow:
    """Some lines of a stream; it is full when there is nothing more to want.

    Args:
        first: Number of the first line to keep, from 1.
        count: How many lines to keep at most; 0 for all.
        limit_bytes: How many bytes to keep at most.
    """

    def __init__(self, *, first: int, count: int, limit_bytes: int) -> None:
        self.total = 0
        self.full = False
        self.kept = bytearray()
        self.first = first
        self._skip = first - 1
        self._left = count
        self._limit_bytes = limit_bytes
        self._counts = count > 0

    @property
    def lines(self) -> int:
        """How many lines were kept, one without an end included."""
        unended = bool(self.kept) and not self.kept.endswith(b"\n")
        return self.kept.count(b"\n") + unended

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        if self.full:
            return
        self.total += len(chunk)
        chunk = self._after_skipped(chunk)
        if self._counts:
            chunk = self._wanted(chunk)
        self.kept += chunk
        if len(self.kept) > self._limit_bytes:
            del self.kept[self._limit_bytes :]
            self.kept[:] = _whole_end(bytes(self.kept))
            self.full = True

    def _after_skipped(self, chunk: bytes) -> bytes:
        ends = chunk.count(b"\n") if self._skip else 0
        if ends < self._skip:
            self._skip -= ends
            return b""
        at = 0
        for _ in range(self._skip):
            at = chunk.index(b"\n", at) + 1
        self._skip = 0
        return chunk[at:]

    def _wanted(self, chunk: bytes) -> bytes:
        ends = chunk.count(b"\n")
        if ends < self._left:
            self._left -= ends
            return chunk
        at = 0
        for _ in range(self._left):
            at = chunk.index(b"\n", at) + 1
        self._left = 0
        self.full = True
        return chunk[:at]


def _whole_end(data: bytes) -> bytes:
    """Return data without a UTF-8 sequence that its end cuts off."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data if size <= back else data[:-back]
        if byte < 0x80:
            break
    return data


def _whole_start(data: bytes) -> bytes:
    """Return data without the rest of a UTF-8 sequence that its start cuts off."""
    start = 0
    while start < min(3, len(data)) and 0x80 <= data[start] < 0xC0:
        start += 1
    return data[start:]
