"""Much output, odd output: bounded, complete where it can be, and legible."""

from __future__ import annotations

import resource
from pathlib import Path

from rlvr_envs.spaces import Unicode
from rlvr_envs.tools.text import clip
from tests.envs.terminal.conftest import Open, Terminal

LIMIT = 8192


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def test_an_endless_flood_ends_at_the_limit(open_terminal: Open) -> None:
    terminal = open_terminal(step_timeout_s=1.5)
    before = _resident_mib()

    result = terminal.bash("timeout 9 yes flood")

    assert _resident_mib() - before < 64
    assert result.timed_out
    assert result.bytes_total > 16 << 20
    assert len(result.raw) < (16 << 20) + 200
    assert result.omitted_bytes > 0
    assert b"bytes were not kept" in result.raw
    assert result.text.startswith("flood\nflood\n")
    text, _ = clip(result.text, LIMIT, omitted_bytes=result.omitted_bytes)
    assert len(text.encode()) <= LIMIT
    assert "timed out after 1.5 s" in text


def test_a_long_log_keeps_its_ends(terminal: Terminal) -> None:
    result = terminal.bash("seq 1 50000; echo 'E: the real error' >&2; exit 3")
    text, cut = clip(result.text, LIMIT, log_path="/run/rlvr/output.log")

    assert result.exit_code == 3
    assert len(text.encode()) <= LIMIT
    assert text.splitlines()[0] == "1"
    assert "E: the real error" in text
    assert f"[... {cut} bytes omitted; full output: /run/rlvr/output.log ...]" in text
    lines = result.raw.splitlines()
    assert (lines[0], lines[24_999]) == (b"1", b"25000")


def test_one_long_line_is_shown_as_far_as_it_goes(terminal: Terminal) -> None:
    result = terminal.bash("printf 'Q%.0s' $(seq 260000); echo")
    text, _ = clip(result.text, LIMIT)

    assert result.bytes_total == 260_001
    assert text.count("Q") >= 7000
    assert len(text.encode()) <= LIMIT


def test_a_pipe_that_the_agent_widened_is_emptied(terminal: Terminal) -> None:
    widen = "import fcntl; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)"
    terminal.bash(f"python3 -c '{widen}'")

    for _ in range(10):
        result = terminal.bash("printf '%0300000d' 0")
        assert result.bytes_total == 300_000


def test_text_of_several_scripts_arrives_in_any_locale(terminal: Terminal) -> None:
    shown = "ПРИВЕТ ┌─┐ 😀 é"
    result = terminal.bash(f"unset LC_ALL LANG; export LC_ALL=C; printf '{shown}\\n'")

    assert result.text == shown


def test_invalid_bytes_are_shown(terminal: Terminal) -> None:
    result = terminal.bash(r"printf 'ok \377\376 \355\240\200 end\n'")

    assert result.text == r"ok \xff\xfe \xed\xa0\x80 end"
    assert result.text.encode()
    assert result.raw == b"ok \xff\xfe \xed\xa0\x80 end\n"


def test_terminal_sequences_go_and_what_they_concealed_stays(
    terminal: Terminal,
) -> None:
    command = r"printf '\033]0;TITLE\007\033[2J\033[31mred\033[0m \033[8mhidden\033[0m plain\n'"
    result = terminal.bash(command)

    assert result.text == "red hidden plain"
    assert b"\x1b]0;TITLE\x07" in result.raw


def test_a_cut_never_splits_an_emoji(terminal: Terminal) -> None:
    result = terminal.bash("for i in $(seq 1 3000); do printf '😀'; done; echo")

    for limit in range(LIMIT, LIMIT + 5):
        text, _ = clip(result.text, limit)
        assert set(text.split("\n")[0]) == {"😀"}
        assert set(text.split("\n")[-1]) == {"😀"}
        assert text in Unicode()
        assert len(text.encode()) <= limit


def test_binary_noise_is_legible_and_bounded(terminal: Terminal) -> None:
    result = terminal.bash("head -c 3000000 /dev/urandom")

    assert result.text in Unicode()
    assert "\ufffd" not in result.text
    assert result.bytes_total == 3_000_000
    assert result.omitted_bytes > 2_700_000
