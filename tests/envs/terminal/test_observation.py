"""From bytes to what an agent reads: no byte vanishes that hid text."""

from __future__ import annotations

import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.envs.terminal.capture import BLOCK_BYTES, Capture, LineWindow
from rlvr_envs.envs.terminal.observation import render_file, render_output
from rlvr_envs.envs.terminal.redaction import REDACTIONS, redact
from rlvr_envs.spaces import Unicode


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\n", "plain\n"),
        (b"\x1b[1;31mred\x1b[0m\x1b[K", "red"),
        (b"\x1b[38;2;1;2;3mtrue\x1b[m", "true"),
        (b"\x1b[?25l\x1b[2J\x1b[Hhome\x1b[10;5f", "home"),
        (b"\x1b[8mhidden\x1b[28m", "hidden"),
        (b"\x1b]0;title\x07a\x1b]2;title\x1b\\b", "ab"),
        (b"\x1b]8;;http://x.test\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1bP1$r0m\x1b\\a\x1b_apc\x1b\\b\x1b^pm\x1b\\c", "abc"),
        (b"\x1b(B\x1b7\x1b=\x1bMa\x1bc", "a"),
        (b"ding\x07dong", "dingdong"),
        # Nothing behind an unfinished sequence may vanish.
        (b"\x1b]0;never ends\nsecret\n", "\\x1b]0;never ends\nsecret\n"),
        (b"\x1bPnever ends, secret", "\\x1bPnever ends, secret"),
        (b"\x1b[31", "\\x1b[31"),
        (b"\x1b", "\\x1b"),
        (b"N\bNA\bAM\bME\bE _\bx_\by", "NAME xy"),
        (b"secret\b\b\b\b\b\bpublic", r"secret\x08\x08\x08\x08\x08\x08public"),
        (b"a\r\nb\r\r\nc", "a\nb\nc"),
        (b"secret\rharmless\n", "secret\nharmless\n"),
        (
            b"0%\r10%\r50%\r100%\n",
            "0%\n[2 overwritten states of this line]\n100%\n",
        ),
        (b"\rone state\r\n", "one state\n"),
        (b"ok \xff\xfe \xed\xa0\x80 end", r"ok \xff\xfe \xed\xa0\x80 end"),
        (b"cut \xf0\x9f\x98", r"cut \xf0\x9f\x98"),
        ("\ufffd".encode(), r"\ufffd"),
        (b"nul\x00", r"nul\x00"),
    ],
)
def test_terminal_output_is_rendered_by_the_rules(data: bytes, text: str) -> None:
    assert render_output(data) == text


def test_a_file_is_data_and_no_terminal() -> None:
    assert render_file(b"a\r\n\x1b[31m\x07b\bc\n") == "a\\x0d\n\\x1b[31m\\x07b\\x08c\n"


@given(st.binary(max_size=500) | st.text("\x1b[]m;0\x07\\P\r\n\b_aé", max_size=80))
def test_rendering_never_fails_and_shows_no_control(data: bytes | str) -> None:
    raw = data.encode() if isinstance(data, str) else data
    for text in (render_output(raw), render_file(raw)):
        assert text in Unicode()
        assert not set(text) & {"\x1b", "\x07", "\x00", "\r", "\b", "\ufffd"}


@pytest.mark.parametrize(
    "unit", [b"\x1b]", b"\x1b[0;", b"a\r", b"a\b", b"_\b", b"\x1bP", b"Q", b" \r\n"]
)
def test_rendering_is_linear(unit: bytes) -> None:
    began = time.process_time()
    render_output(unit * (200_000 // len(unit)))

    assert time.process_time() - began < 2.0


def _rest(pattern: str) -> str:
    done = subprocess.run(
        ["bash", "-c", pattern], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize(
    ("command", "gone"),
    [
        ("ls -l /proc/self/ns", ":[40265"),
        ("readlink /proc/self/ns/net", "[4"),
        ("readlink /proc/self/fd/0 < <(sleep 0.1)", "pipe:[1"),
        ("true | ls -l /proc/self/fd/0", "pipe:[1"),
        ("grep ctxt /proc/self/status", ":\t1"),
    ],
)
def test_what_the_kernel_prints_is_redacted(command: str, gone: str) -> None:
    shown = redact(_rest(command))

    assert "<inode>" in shown or "<count>" in shown
    assert gone not in shown


def test_two_processes_have_one_redacted_stat_line() -> None:
    raw = [
        _rest(f"head -c {n} /dev/zero > /dev/null; cat /proc/$$/stat")
        for n in (9, 9_000_000)
    ]
    first, second = (redact(line) for line in raw)

    assert raw[0] != raw[1]
    assert "<counters>" in first
    assert (
        first.split("<counters>")[1].split(" <memory>")[0]
        == (second.split("<counters>")[1].split(" <memory>")[0])
    )


def test_mount_lines_lose_their_numbers_alone() -> None:
    lines = _rest("cat /proc/self/mountinfo").splitlines()
    shown = redact("\n".join(lines)).splitlines()

    assert len(shown) == len(lines)
    for before, after in zip(lines, shown, strict=True):
        assert after == " ".join(["<id> <id> <device>", *before.split(" ")[3:]])


def test_stat_loses_its_device_alone() -> None:
    before = _rest("stat /etc/passwd")
    after = redact(before)

    assert "Device: <device>" in after
    assert [line for line in before.splitlines() if "Device" not in line] == [
        line for line in after.splitlines() if "Device" not in line
    ]


@pytest.mark.parametrize(
    "text",
    [
        "net:[123]",
        "internet:[4026531840]",
        "vnet:[4026532000]",
        "net:[40265318401]",
        "net:[4026531840",
        "see pipe:[1] in the text",
        "pipe: [71349]",
        "socket:[abc]",
        "127.0.0.1:43512",
        "36 35 98:0 / /mnt rw",
        "36 35 98:0 a b rw - c d e",
        "total 36 35 98:0 / / rw - ext4 /dev/sda rw",
        "1 (bash) S 0 1 1",
        "1 (a) is not (b) and 2 3 4 5",
        "ctxt_switches: 5",
        "voluntary_ctxt_switches: 12",
        "Device: Intel Corporation",
        "Device: 8,1",
        "Inode: 5 Links: 1",
        "2024-01-15 09:00:00 pid=4711 port 40265",
        "4026531840",
        "user:[name]",
    ],
)
def test_text_that_merely_resembles_it_is_spared(text: str) -> None:
    assert redact(text) == text


def test_each_row_says_what_it_is_for() -> None:
    assert len({row.name for row in REDACTIONS}) == len(REDACTIONS)
    assert all(row.needle for row in REDACTIONS)


@given(
    st.lists(st.binary(max_size=60), max_size=30),
    st.integers(min_value=2, max_value=90),
)
def test_a_capture_keeps_both_ends(chunks: list[bytes], limit: int) -> None:
    capture = Capture(limit)
    for chunk in chunks:
        capture.feed(chunk)
    data = b"".join(chunks)
    half = limit // 2

    assert capture.total == len(data)
    part = capture.excerpt(limit)
    if len(data) <= 2 * half:
        assert capture.raw() == data
        assert (part.head, part.tail, part.omitted_bytes) == (data, b"", 0)
        return
    assert data.startswith(part.head)
    assert data.endswith(part.tail)
    assert half - 4 < len(part.head) <= half
    assert half - 4 < len(part.tail) <= half
    assert part.omitted_bytes == len(data) - len(part.head) - len(part.tail)


def test_a_capture_of_single_bytes_is_as_small() -> None:
    capture = Capture(4 * BLOCK_BYTES)
    for _ in range(10 * BLOCK_BYTES):
        capture.feed(b"x")

    assert len(capture._tail) <= 4
    assert capture.total == 10 * BLOCK_BYTES


@pytest.mark.parametrize("limit", range(8, 24))
def test_a_capture_cuts_between_characters(limit: int) -> None:
    capture = Capture(limit)
    capture.feed("é😀".encode() * 20)
    part = capture.excerpt(limit)

    assert part.head.decode()
    assert part.tail.decode()


@given(
    st.lists(st.sampled_from([b"a\n", b"\n", b"b", b"cc\n\nd"]), max_size=12),
    st.integers(min_value=1, max_value=6),
    st.integers(min_value=0, max_value=5),
)
def test_a_window_shows_the_lines_that_were_asked_for(
    chunks: list[bytes], first: int, count: int
) -> None:
    window = LineWindow(first=first, count=count, limit_bytes=1000)
    for chunk in chunks:
        window.feed(chunk)
    lines = b"".join(chunks).splitlines(keepends=True)
    wanted = lines[first - 1 : first - 1 + count if count else None]

    assert bytes(window.kept) == b"".join(wanted)
    assert window.lines == len(wanted)


def test_a_window_is_bounded() -> None:
    window = LineWindow(first=1, count=0, limit_bytes=10)
    window.feed("é".encode() * 20)

    assert window.full
    assert bytes(window.kept).decode() == "é" * 5
