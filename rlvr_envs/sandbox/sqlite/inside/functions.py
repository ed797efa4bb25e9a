"""SQL functions that read clock or randomness, as functions of what they are told."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

_WORD = (1 << 64) - 1
_SIGNED = 1 << 63
_BLOB_MAX = 1 << 24
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACES = {
    "date": 0,
    "time": 0,
    "datetime": 0,
    "julianday": 0,
    "unixepoch": 0,
    "strftime": 1,
}
"""Where each function takes its moment; left out, it is now."""

_CURRENT = {
    "current_date": "%Y-%m-%d",
    "current_time": "%H:%M:%S",
    "current_timestamp": "%Y-%m-%d %H:%M:%S",
}
_FINER = ("subsec", "subsecond")


class Stream:
    """Clock and randomness of one session.

    Attributes:
        epoch_s: What time it is, in seconds since 1970.
    """

    def __init__(self) -> None:
        self.epoch_s = 0.0
        self._seed = self._state = 0
        # The engine's own functions, which ours call with a moment in place of now.
        self._engine = sqlite3.connect(":memory:", isolation_level=None)
        known = self._engine.execute("SELECT DISTINCT name FROM pragma_function_list")
        self.known = frozenset(str(name) for (name,) in known)

    def call(self, name: str, values: list[Any]) -> Any:
        """Call a function of the engine's, in which "now" is our moment."""
        moment = self.now().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        told = [moment if _word_of([value]) == "now" else value for value in values]
        marks = ",".join("?" * len(told))
        row = self._engine.execute(f"SELECT {name}({marks})", told).fetchone()
        return row[0]

    def seed(self, seed: int) -> None:
        """Begin the numbers of a seed, any integer; the one at work goes on."""
        if seed != self._seed:
            self._seed = seed
            self._state = _mixed(seed & _WORD)

    def now(self) -> datetime:
        """Return what time it is, in UTC."""
        return _EPOCH + timedelta(microseconds=round(self.epoch_s * 1e6))

    def word(self) -> int:
        """Return the next 64 bits.

        Source:
            Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
            OOPSLA 2014 (splitmix64).
        """
        self._state = (self._state + 0x9E3779B97F4A7C15) & _WORD
        return _mixed(self._state)

    def integer(self) -> int:
        """Return any signed integer of 64 bits, as ``random()`` does."""
        word = self.word()
        return word - (1 << 64) if word >= _SIGNED else word

    def blob(self, size: Any) -> bytes:
        """Return some bytes, as ``randomblob()`` does: at least one."""
        wanted = max(1, int(size or 0))
        if wanted > _BLOB_MAX:
            raise OverflowError("string or blob too big")
        words = (self.word() for _ in range((wanted + 7) // 8))
        return b"".join(word.to_bytes(8, "little") for word in words)[:wanted]


def install(connection: sqlite3.Connection, stream: Stream) -> None:
    """Put ours in the place of the engine's own in one connection.

    They are declared deterministic where the engine declares its own so, as an
    index over ``date(column)`` needs it: "now" stands still within a statement.
    """
    for name, form in _CURRENT.items():
        connection.create_function(
            name, 0, partial(_current, stream, form), deterministic=True
        )
    for name in stream.known & _PLACES.keys():
        timed: Callable[..., Any] = partial(_timed, stream, name, _PLACES[name])
        connection.create_function(name, -1, timed, deterministic=True)
    if "timediff" in stream.known:
        between: Callable[..., Any] = partial(_between, stream)
        connection.create_function("timediff", 2, between, deterministic=True)
    connection.create_function("random", 0, stream.integer)
    connection.create_function("randomblob", 1, stream.blob)


def _mixed(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _WORD
    return value ^ (value >> 31)


def _current(stream: Stream, form: str) -> str:
    return stream.now().strftime(form)


def _timed(stream: Stream, name: str, place: int, *given: Any) -> Any:
    values = list(given)
    if len(values) == place or _word_of(values[place : place + 1]) in _FINER:
        values.insert(place, "now")
    return stream.call(name, values)


def _between(stream: Stream, *given: Any) -> Any:
    return stream.call("timediff", list(given))


def _word_of(values: list[Any]) -> str:
    value = values[0] if values else None
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.lower() if isinstance(value, str) else ""
