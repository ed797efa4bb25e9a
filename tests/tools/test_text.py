"""Clipping, and showing what cannot be seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.tools.text import clip, decode, show_invisible

ENCODABLE = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)


@given(ENCODABLE, st.integers(min_value=120, max_value=900))
def test_a_clip_keeps_within_its_bytes_and_counts_what_it_took(
    text: str, limit: int
) -> None:
    clipped, cut = clip(text, limit, log_path="/run/rlvr/output.log")

    assert len(clipped.encode()) <= limit
    assert clip(text, limit, log_path="/run/rlvr/output.log") == (clipped, cut)
    if not cut:
        assert clipped == text
        return
    marker = f"[... {cut} bytes omitted; full output: /run/rlvr/output.log ...]"
    head, _, tail = clipped.partition(marker)
    kept = len(head.removesuffix("\n").encode()) + len(tail[1:].encode())
    assert text.startswith(head.removesuffix("\n"))
    assert text.endswith(tail[1:])
    assert len(text.encode()) - kept in (cut, cut + 1)


def test_a_text_that_fits_stays() -> None:
    assert clip("é" * 50, 100) == ("é" * 50, 0)


def test_head_and_tail_have_equal_room() -> None:
    text, _ = clip("Q" * 100_000, 8192)
    head, tail = text.split("\n[")[0], text.split("]\n")[1]

    assert abs(len(head) - len(tail)) <= 1
    assert len(head) + len(tail) > 8100


def test_a_cut_moves_to_a_line_end_that_is_near() -> None:
    lines = "".join(f"line {n}\n" for n in range(1000))
    text, _ = clip(lines, 600)
    head, tail = text.split("[...")[0], text.split("...]\n")[1]

    assert lines.startswith(head)
    assert head.endswith("\n")
    assert tail.startswith("line ")


@pytest.mark.parametrize(
    "unit", ["e\u0301", "👩\u200d👩\u200d👧", "👍\U0001f3fd", "क\u094d"]
)
def test_a_cut_parts_no_mark_or_joined_emoji(unit: str) -> None:
    for limit in range(200, 230):
        text, cut = clip(unit * 400, limit)
        head, tail = text.split("\n[...")[0], text.split("...]\n")[1]
        assert cut
        assert head == unit * (len(head) // len(unit))
        assert tail == unit * (len(tail) // len(unit))


def test_earlier_cuts_are_added() -> None:
    text, cut = clip("Q" * 2000, 500, omitted_bytes=1_000_000)

    assert f"[... {1_000_000 + cut} bytes omitted ...]" in text


def test_a_limit_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room for a marker"):
        clip("Q" * 100, 20)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tab\tline\n", "tab\tline\n"),
        ("a\0b\x01\x7f\x1b", r"a\x00b\x01\x7f\x1b"),
        ("\x85\x9b", r"\u0085\u009b"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("zero\u200bwidth\ufeff\u2060\u00ad", r"zero\u200bwidth\ufeff\u2060\u00ad"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("\ufffd", r"\ufffd"),
        ("مي\u200cشود שלום\u200f", "مي\u200cشود שלום\u200f"),
        ("❤\ufe0f 👩\u200d👧 e\u0301", "❤\ufe0f 👩\u200d👧 e\u0301"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert show_invisible(text) == shown


@given(st.binary(max_size=200))
def test_any_bytes_become_encodable_text(data: bytes) -> None:
    text = show_invisible(decode(data))

    assert text.encode() or not data
    assert "\ufffd" not in text
    assert show_invisible(text) == text
