"""However large what a server sends, the trainer holds what can be shown of it."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlvr_envs.envs.sql_rest.session import SqlSession
from rlvr_envs.envs.sql_rest.valve import Filter
from tests.databases import MakeClone

LARGE = 40_000_000
ALLOWED_BYTES = 16_000_000


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def row(*values: bytes | None) -> bytes:
    cells = [
        struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v
        for v in values
    ]
    return message(b"D", struct.pack("!H", len(values)) + b"".join(cells))


def told(*fields: str) -> bytes:
    return b"".join(field.encode() + b"\0" for field in fields) + b"\0"


def filtered(data: bytes, *, piece: int, limit: int = 100) -> tuple[bytes, Filter]:
    found = Filter(limit)
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
    return b"".join(map(found.feed, pieces)), found


@contextmanager
def little_memory() -> Iterator[None]:
    """Fail if the process holds much more than at the start, if only for a moment."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak_bytes()
    yield
    assert _peak_bytes() - before < ALLOWED_BYTES


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    (found,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return int(found) * 1024


@pytest.mark.parametrize("piece", [1, 3, 7, 64, 10_000])
def test_what_fits_passes_to_the_letter(piece: int) -> None:
    data = b"".join(
        [
            message(b"T", b"x" * 500),
            row(b"a" * 50, None, b"b" * 50),
            row(),
            message(b"C", b"SELECT 2\0"),
            message(b"Z", b"I"),
        ]
    )

    passed, found = filtered(data, piece=piece)

    assert passed == data
    assert found.rows == 2
    assert not found.omitted


@pytest.mark.parametrize("piece", [1, 5, 64, 10_000])
def test_a_row_that_is_too_large_becomes_one_of_nulls(piece: int) -> None:
    data = row(b"a") + row(b"b" * 60, None, b"c" * 41) + row(b"d")

    passed, found = filtered(data, piece=piece)

    assert passed == row(b"a") + row(None, None, None) + row(b"d")
    assert found.omitted == {2: 101}
    assert found.rows == 3


@pytest.mark.parametrize("piece", [1, 5, 64, 10_000])
def test_a_piece_of_a_copy_is_cut(piece: int) -> None:
    data = message(b"d", b"a" * 250) + message(b"d", b"b" * 30) + message(b"c", b"")

    passed, found = filtered(data, piece=piece)

    assert passed == (
        message(b"d", b"a" * 100) + message(b"d", b"b" * 30) + message(b"c", b"")
    )
    assert found.copy_bytes == 150


@pytest.mark.parametrize("kind", [b"E", b"N"])
@pytest.mark.parametrize("piece", [1000, 1_000_000])
def test_a_long_error_keeps_its_beginning(kind: bytes, piece: int) -> None:
    data = message(kind, told("SERROR", "C22P02", "M" + "x" * 100_000, "Dmore"))
    after = message(b"Z", b"I")

    passed, _ = filtered(data + after, piece=piece)

    assert passed.startswith(kind)
    assert b"C22P02\0Mxxx" in passed
    assert passed.endswith(b"x [... cut]\0\0" + after)
    assert len(passed) < 20_000


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT repeat('x', {LARGE})",
        f"COPY (SELECT repeat('x', {LARGE})) TO STDOUT",
        f"SELECT repeat('x', {LARGE})::int",
        f"DO $$ BEGIN RAISE NOTICE '%', repeat('x', {LARGE}); END $$",
    ],
    ids=["value", "copy", "error", "notice"],
)
def test_a_trainer_does_not_hold_what_it_cannot_show(
    clone_of: MakeClone, statement: str
) -> None:
    session = SqlSession(clone_of())
    session.sql("SELECT 1")

    with little_memory():
        result = session.sql(statement)

    assert not result.timed_out
    assert session.sql("SELECT 2").text == "?column?\n2\n(1 row)"


def test_what_was_left_out_is_counted_to_the_byte(clone_of: MakeClone) -> None:
    session = SqlSession(clone_of())

    result = session.sql("SELECT 1 AS n, repeat('x', 5000000) AS t")

    assert result.bytes_total == result.omitted_bytes == 5_000_001
    assert "1 more rows not shown" in result.text
    assert "(1 row)" in result.text
