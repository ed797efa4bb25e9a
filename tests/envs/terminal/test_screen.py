"""A real terminal: full-screen programs run, and nothing of it stays behind."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from rlvr_envs.envs.terminal.screen import check
from rlvr_envs.errors import MissingRequirement, SandboxError
from tests.envs.terminal.conftest import Terminal, host_commands
from tests.envs.terminal.local import LocalSandbox
from tests.processes import eventually

pytestmark = pytest.mark.skipif(
    shutil.which("tmux") is None, reason="tmux is not installed"
)


def _folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("rlvr-screen-*"))


def _type(terminal: Terminal, *keys: str, literal: bool = False) -> str:
    return terminal.call("send_keys", keys=list(keys), literal=literal).text


def _until(terminal: Terminal, needle: str) -> str:
    """Look until something is shown; a machine under load may be slow."""
    shown = [terminal.call("screen").text]

    def there() -> bool:
        shown.append(terminal.call("screen").text)
        return needle in shown[-1]

    if needle not in shown[-1]:
        assert eventually(there), shown[-1]
    return shown[-1]


def _leave(terminal: Terminal) -> None:
    """End the screen's shell."""
    terminal.call("send_keys", keys=["exit", "Enter"])
    screen = terminal.session._screen
    assert screen is not None
    assert eventually(lambda: not screen.is_running)


def test_a_shell_answers_on_the_screen(terminal: Terminal) -> None:
    terminal.bash("cd /usr")
    first = terminal.call("screen")
    _type(terminal, "echo $((40+2)) é😀; tput cols; tput lines", "Enter")
    shown = _until(terminal, "24")

    assert first.ok
    assert first.text.splitlines()[0].startswith("/usr")
    assert shown.splitlines()[1:4] == ["42 é😀", "80", "24"]
    assert shown.splitlines()[-1].startswith("[cursor: row 5, column ")


def test_the_same_keys_show_the_same_screen(terminal: Terminal) -> None:
    def play() -> str:
        _leave(terminal)
        _type(terminal, "cd /; echo one", "Enter")
        return _until(terminal, "one\n/")

    assert play() == play()


def test_literal_text_and_odd_endings_are_typed(terminal: Terminal) -> None:
    terminal.bash("cd /")
    _type(terminal, "echo ", "Enter", " Up; 'a;b' \\;", literal=True)
    shown = _type(terminal, "#;")

    assert "echo Enter Up; 'a;b' \\;#;" in shown


def test_a_full_screen_program_runs(terminal: Terminal) -> None:
    if terminal.bash("command -v vi").exit_code:
        pytest.skip("the image has no vi")
    _type(terminal, "vi note.txt", "Enter")
    _until(terminal, "~\n~")
    _type(terminal, "i", "hello", "Escape", ":wq", "Enter")

    assert eventually(lambda: terminal.bash("cat note.txt").text == "hello")


def test_a_pager_and_an_interpreter_run(terminal: Terminal) -> None:
    _type(terminal, "python3 -q", "Enter")
    _until(terminal, ">>>")
    _type(terminal, "6*7", "Enter")
    assert "\n42\n" in _until(terminal, "42\n")
    _type(terminal, "C-d")
    if terminal.bash("command -v less").exit_code:
        return
    terminal.bash("seq 100 > n")
    _type(terminal, "clear; less n", "Enter")
    assert "\n22\n23\n" in _until(terminal, "\n23\n")
    _type(terminal, "G")
    assert "\n99\n100\n" in _until(terminal, "\n100\n")


def test_control_keys_reach_the_foreground(terminal: Terminal) -> None:
    _type(terminal, "sleep 600; echo $?", "Enter")
    shown = _type(terminal, "C-c", "echo over", "Enter")

    assert "over" in (shown if "\nover" in shown else _until(terminal, "\nover"))


def test_it_has_a_terminal_and_variables_of_its_own(terminal: Terminal) -> None:
    _type(terminal, "export K=1; clear; (echo seen > /dev/tty) > f; set -o", "Enter")

    assert "monitor" in _until(terminal, "monitor")
    assert terminal.bash("echo $K; cat f").text == ""


def test_a_shell_that_ended_is_followed_by_a_new_one(terminal: Terminal) -> None:
    _leave(terminal)
    _type(terminal, "echo again", "Enter")
    assert "\nagain" in _until(terminal, "\nagain")


def _about(text: str) -> list[str]:
    return [command for command in host_commands() if text in command]


def test_closing_leaves_no_process_and_no_folder(terminal: Terminal) -> None:
    before = _folders()
    terminal.call("screen")
    (folder,) = _folders() - before
    assert len(_about(str(folder))) == 2

    terminal.session.close()

    assert eventually(lambda: not _about(str(folder)))
    assert not folder.exists()


def test_a_dead_tmux_is_reported_and_replaced(terminal: Terminal) -> None:
    terminal.call("screen")
    screen = terminal.session._screen
    assert screen is not None
    screen._server.cmd("kill-server")

    # Whether tmux or its shell is missed first is a race; neither may raise.
    seen = [terminal.call("screen") for _ in range(2)]
    assert seen[-1].ok
    assert seen[0].ok or seen[0].text.startswith("The screen failed: tmux")


def test_a_sandbox_that_is_gone_is_the_worlds_fault(terminal: Terminal) -> None:
    if isinstance(terminal.sandbox, LocalSandbox):
        terminal.sandbox.gone = True
    else:
        terminal.sandbox.destroy()

    with pytest.raises(SandboxError):
        terminal.call("screen")


def test_a_host_without_tmux_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check()
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(MissingRequirement, match="apt-get install tmux"):
        check()


def test_a_tmux_that_goes_while_an_episode_lasts_is_the_worlds_fault(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(SandboxError, match="apt-get install tmux"):
        terminal.session.screen()


OWNER = textwrap.dedent("""
    import sys, time
    from rlvr_envs.envs.terminal.session import TerminalSession
    from tests.envs.terminal.local import LocalSandbox
    session = TerminalSession(LocalSandbox(), user=0)
    session.start()
    session.screen()
    print(session._screen._server.socket_path, flush=True)
    time.sleep(600)
""")


def test_a_killed_owner_takes_tmux_with_it() -> None:
    root = Path(__file__).parents[3]
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert owner.stdout is not None
    socket = Path(owner.stdout.readline().strip())
    assert socket.exists()

    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()

    assert eventually(lambda: not socket.parent.exists())
    assert eventually(lambda: not _about(str(socket.parent)))
