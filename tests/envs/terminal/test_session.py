"""Programs, files, limits, and whose fault a failure is."""

from __future__ import annotations

import math
import os
import time

import pytest

from rlvr_envs.envs.terminal.capture import EXCERPT_BYTES
from rlvr_envs.envs.terminal.session import TerminalSession
from rlvr_envs.errors import SandboxError
from rlvr_envs.records import ErrorKind
from tests.envs.terminal.conftest import Open, Terminal, real_sandbox
from tests.envs.terminal.local import LocalSandbox


@pytest.mark.parametrize("limit", [math.inf, math.nan, 0, -1, True, -math.inf])
def test_a_limit_must_be_positive_and_finite(limit: float) -> None:
    with pytest.raises(ValueError, match="step_timeout_s must be positive"):
        TerminalSession(LocalSandbox(), step_timeout_s=limit)
    with pytest.raises(ValueError, match="grace_s must be positive"):
        TerminalSession(LocalSandbox(), grace_s=limit)
    with pytest.raises(ValueError, match="seconds must be positive"):
        TerminalSession(LocalSandbox()).limit_s(limit)


def test_nothing_starts_before_start_and_close_is_idempotent() -> None:
    sandbox = LocalSandbox()
    session = TerminalSession(sandbox)
    session.close()

    assert not session.alive
    assert sandbox.members() == set()
    with pytest.raises(SandboxError, match="was not started"):
        session.bash("true")


def test_a_closed_session_leaves_no_shell_and_no_descriptor() -> None:
    sandbox = LocalSandbox()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - numbers, not files
    session = TerminalSession(sandbox, user=0)
    for _ in range(3):
        session.start()
        session.bash("exit")
        session.exec(["true"])
        session.close()
        session.close()
    sandbox.destroy()

    assert sandbox.members() == set()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above


def test_a_sandbox_that_is_gone_is_the_worlds_fault(terminal: Terminal) -> None:
    if isinstance(terminal.sandbox, LocalSandbox):
        terminal.sandbox.gone = True
        terminal.sandbox._processes[0].kill()
    else:
        terminal.sandbox.destroy()

    for name, arguments in (
        ("bash", {"command": "true"}),
        ("exec", {"argv": ["true"]}),
        ("read_file", {"path": "/etc/passwd"}),
    ):
        with pytest.raises(SandboxError):
            terminal.call(name, **arguments)


def test_a_sandbox_killed_under_a_command_is_the_worlds_fault() -> None:
    sandbox = LocalSandbox()
    session = TerminalSession(sandbox, user=0)
    session.start()
    sandbox.gone = True

    with pytest.raises(SandboxError):
        session.bash("kill -9 $$")

    session.close()
    sandbox.destroy()


def test_no_room_for_a_new_shell_is_the_agents_doing() -> None:
    sandbox = LocalSandbox()
    session = TerminalSession(sandbox, user=0)
    session.start()
    sandbox.refuse = BlockingIOError(11, os.strerror(11))
    lost = session.bash("exit 1")
    still = session.bash("echo x")
    ran = session.exec(["true"])
    sandbox.refuse = None

    assert "no new shell could be started: Resource temporarily" in lost.text
    assert still.error_kind is ErrorKind.SHELL_LOST
    assert still.ok is False
    assert ran.error_kind is ErrorKind.TOOL_ERROR
    assert session.bash("echo back").text.startswith("back\n[the shell had ended")
    session.close()
    sandbox.destroy()


def test_an_image_without_bash_is_the_worlds_fault() -> None:
    sandbox = LocalSandbox()
    sandbox.refuse = FileNotFoundError(2, os.strerror(2))

    with pytest.raises(SandboxError, match="No shell could be started"):
        TerminalSession(sandbox).start()


def test_a_missing_workdir_means_the_root(open_terminal: Open) -> None:
    terminal = open_terminal(workdir="/no/such/folder")

    assert terminal.bash("pwd").text == "/"


def test_exec_keeps_the_streams_apart(terminal: Terminal) -> None:
    result = terminal.call(
        "exec", argv=["sh", "-c", "echo out; echo err >&2; cat; exit 3"], stdin="in"
    )

    assert result.text == "[stdout]\nout\nin\n[stderr]\nerr\n[exit status 3]"
    assert result.exit_code == 3
    assert result.error_kind is ErrorKind.NONZERO_EXIT
    assert result.raw == b"[stdout]\nout\nin\n[stderr]\nerr\n"


def test_exec_expands_nothing(terminal: Terminal) -> None:
    argv = ["printf", "<%s>", "$HOME *", "a b", "", "-n", "é"]

    result = terminal.call("exec", argv=argv)

    assert result.text == "[stdout]\n<$HOME *><a b><><-n><é>\n[stderr]"


def test_exec_starts_where_the_shell_is(terminal: Terminal) -> None:
    terminal.bash("mkdir -p 'a b/c'; cd 'a b'")

    def where(**arguments: str) -> str:
        shown = terminal.call("exec", argv=["pwd", "-P"], **arguments).text
        return shown.removeprefix("[stdout]\n").removesuffix("\n[stderr]")

    assert where().endswith("/a b")
    assert where(cwd="c").endswith("/a b/c")
    assert where(cwd="/usr") == "/usr"


@pytest.mark.parametrize(
    ("argv", "status", "reason"),
    [
        (["no-such-program"], 127, "No such file or directory"),
        (["/etc/passwd"], 126, "Permission denied"),
        (["/etc/passwd/x"], 126, "Not a directory"),
    ],
)
def test_a_program_that_cannot_start_says_why(
    terminal: Terminal, argv: list[str], status: int, reason: str
) -> None:
    result = terminal.call("exec", argv=argv)

    assert result.exit_code == status
    assert result.error_kind is ErrorKind.TOOL_ERROR
    assert result.text.startswith(f"{argv[0]}: cannot be started: {reason}")


def test_exec_times_out_by_the_same_rule(hasty: Terminal) -> None:
    began = time.monotonic()
    result = hasty.call(
        "exec", argv=["bash", "-c", "echo a; setsid sleep 600 & sleep 600"]
    )

    assert time.monotonic() - began < 0.4 + 1.0
    assert (result.timed_out, result.limit, result.exit_code) == (True, "step", -1)
    # The bash that waits may live long enough to tell of the child's end.
    assert result.text.startswith("[stdout]\na\n[stderr]\n")
    assert "\n[timed out after 0.4 s; everything" in result.text
    assert hasty.bash("pgrep -f 'sleep 60[0]' -u $(id -u)").exit_code in (1, 127)


def test_exec_does_not_wait_for_what_it_left_behind(terminal: Terminal) -> None:
    began = time.monotonic()
    result = terminal.call("exec", argv=["bash", "-c", "sleep 300 & echo $!"])

    assert time.monotonic() - began < 4.0
    assert result.exit_code == 0
    terminal.bash(f"kill {result.text.split()[1]}")


CONTENTS = {
    "empty": "",
    "plain": "one\ntwo\n",
    "unended": "one\ntwo",
    "crlf": "one\r\ntwo\r\n",
    "nul": "a\0b\n",
    "unicode": "ПРИВЕТ ┌─┐ 😀 é\n",
    "quotes": "$HOME `id` \"x\" 'y' \\ \\n EOF\n",
    "large": "0123456789abcde\n" * 100_000,
}
NAMES = ["x", "-n", "-", "--", "a b", "new\nline", "é'\"$`*?", "sub/../y", ".hidden"]


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
def test_a_file_holds_what_was_written(terminal: Terminal, content: str) -> None:
    written = terminal.call("write_file", path="f", content=content)
    result = terminal.call("read_file", path="f")

    size = len(content.encode())
    assert written.text == f"wrote {size} bytes to f"
    assert result.raw == content.encode()[:EXCERPT_BYTES]
    assert terminal.bash("wc -c < f").text == str(size)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_written_and_read(terminal: Terminal, name: str) -> None:
    terminal.bash("mkdir -p sub")
    terminal.call("write_file", path=name, content="a\n", mode="640")
    terminal.call("write_file", path=name, content="b\n", append=True)

    assert terminal.call("read_file", path=name).text == "a\nb"
    shown = terminal.call("exec", argv=["stat", "-c", "%a %s", "--", f"./{name}"])
    assert shown.text == "[stdout]\n640 4\n[stderr]"


def test_a_file_is_shown_as_it_is(terminal: Terminal) -> None:
    terminal.bash(r"printf 'a\r\n\377\0\033[31mred\n\tend' > f")

    result = terminal.call("read_file", path="f")

    assert result.text == (
        "a\\x0d\n\\xff\\x00\\x1b[31mred\n\tend\n[no newline at the end of the file]"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "1\n2\n3"),
        ({"offset": 2}, "2\n3"),
        ({"offset": 2, "limit": 1}, "2\n[lines 2 to 2; the file may go on]"),
        ({"limit": 3}, "1\n2\n3\n[lines 1 to 3; the file may go on]"),
        ({"limit": 4}, "1\n2\n3"),
        ({"offset": 4}, "[the file ends before line 4]"),
        ({"offset": 9, "limit": 2}, "[the file ends before line 9]"),
    ],
)
def test_some_lines_can_be_read(
    terminal: Terminal, arguments: dict[str, int], text: str
) -> None:
    terminal.bash("seq 3 > f")

    assert terminal.call("read_file", path="f", **arguments).text == text


def test_a_line_deep_in_a_large_file_can_be_read(terminal: Terminal) -> None:
    terminal.bash("seq 300000 > f")

    result = terminal.call("read_file", path="f", offset=250_000, limit=2)

    assert result.text.startswith("250000\n250001\n[lines 250000 to 250001;")


def test_an_endless_file_is_read_to_the_bound(terminal: Terminal) -> None:
    result = terminal.call("read_file", path="/dev/zero")

    assert result.ok
    assert result.bytes_total == EXCERPT_BYTES


def test_an_empty_file_says_so(terminal: Terminal) -> None:
    assert terminal.call("read_file", path="/dev/null").text == "[the file is empty]"


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("read_file", {"path": "/no/such"}, "/no/such: No such file or directory"),
        ("read_file", {"path": "/etc"}, "/etc: Is a directory"),
        ("read_file", {"path": "/etc/passwd/x"}, "/etc/passwd/x: Not a directory"),
        ("write_file", {"path": "/no/such", "content": ""}, "/no/such: No such file"),
        ("write_file", {"path": "/etc", "content": "x"}, "/etc: Is a directory"),
        ("write_file", {"path": "/dev/full", "content": "x"}, "No space left on"),
    ],
)
def test_a_file_that_cannot_be_had_says_why(
    terminal: Terminal, name: str, arguments: dict[str, str], reason: str
) -> None:
    result = terminal.call(name, **arguments)

    assert reason in result.text.removeprefix("/dev/full: ")
    assert result.error_kind is ErrorKind.TOOL_ERROR
    assert result.exit_code == 1


def test_files_are_the_agents_and_so_are_its_rights() -> None:
    with real_sandbox() as sandbox:
        session = TerminalSession(sandbox, workdir="/home/agent")
        session.start()
        denied = session.write_file("/etc/passwd", "x")
        hidden = session.read_file("/etc/shadow")
        session.write_file("mine", "x")
        owner = session.bash("stat -c %u:%g mine; id -u; echo $HOME $USER")
        session.bash("ln -s /etc/shadow link")
        through = session.read_file("link")
        session.close()

    assert "/etc/passwd: Permission denied" in denied.text
    assert "/etc/shadow: Permission denied" in hidden.text
    assert owner.text == "1000:1000\n1000\n/home/agent agent"
    assert "link: Permission denied" in through.text


def test_a_pipe_that_nobody_writes_times_out(hasty: Terminal) -> None:
    hasty.bash("mkfifo p")

    result = hasty.call("read_file", path="p")

    assert result.timed_out
    assert "timed out" in result.text
    assert hasty.bash("echo next").text == "next"


def test_submit_ends_the_episode_and_records_the_answer(terminal: Terminal) -> None:
    result = terminal.call("submit", answer="forty-two")

    assert result.submits
    assert result.raw == b"forty-two"
    assert "forty-two" not in result.text


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("bash", {"command": "echo a\0b"}, "NUL"),
        ("bash", {"command": "echo \ud83d"}, "lone surrogate"),
        ("bash", {"command": 5}, "is not of type 'string'"),
        ("bash", {}, "'command' is a required property"),
        ("bash", {"command": "x", "timeout": 5}, "'timeout' was unexpected"),
        ("exec", {"argv": []}, "should be non-empty"),
        ("exec", {"argv": [""]}, "names no program"),
        ("exec", {"argv": ["echo", "a\0"]}, "NUL"),
        ("exec", {"argv": "echo hi"}, "is not of type 'array'"),
        ("exec", {"argv": ["echo", "x" * 200_000]}, "Argument list too long"),
        ("exec", {"argv": ["echo"], "cwd": "a\0"}, "NUL"),
        ("exec", {"argv": ["echo"], "cwd": "x" * 300}, "File name too long"),
        ("read_file", {"path": "a\0b"}, "NUL"),
        ("read_file", {"path": "x/" * 2500}, "too long"),
        ("read_file", {"path": "x", "offset": 0}, "less than the minimum"),
        ("write_file", {"path": "x", "content": "", "mode": "999"}, "does not match"),
        ("send_keys", {"keys": []}, "should be non-empty"),
        ("send_keys", {"keys": ["a\0"]}, "NUL"),
        ("submit", {"answer": None}, "is not of type 'string'"),
    ],
)
def test_invalid_arguments_run_nothing_and_say_why(
    terminal: Terminal, name: str, arguments: dict[str, object], reason: str
) -> None:
    result = terminal.call(name, **arguments)

    assert result.error_kind is ErrorKind.INVALID_ARGUMENTS
    assert reason in result.text
    assert len(result.text) < 2000
    assert result.text.encode()


@pytest.mark.parametrize(
    "bomb",
    [
        ":(){ :|:& };:",
        "python3 -c 'x=bytearray(8<<30)'",
        "dd if=/dev/zero of=/tmp/f bs=1M count=1000000",
        "ulimit -n 1048576; python3 -c \"f=[open('/dev/null') for _ in range(10**6)]\"",
    ],
)
def test_a_resource_bomb_ends_within_the_limit(bomb: str) -> None:
    with real_sandbox() as sandbox:
        session = TerminalSession(sandbox, workdir="/home/agent", step_timeout_s=4.0)
        session.start()
        began = time.monotonic()
        session.bash(bomb)
        took_s = time.monotonic() - began
        after = session.bash("echo ok")
        session.close()

    assert took_s < 4.0 + 1.0 + 1.0
    assert "ok" in after.text or not after.ok
