"""A terminal of 80 by 24 characters: tmux outside, its shell inside the sandbox.

tmux runs on the host, with a socket of its own, and opens a pane whose program only
holds the pane's terminal. That terminal's descriptor is handed to an interactive
bash inside the sandbox, as its controlling terminal: what it prints goes straight to
tmux, what is typed comes straight from it, and no process of the host reads either.
"""

from __future__ import annotations

import importlib
import os
import select
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlvr_envs.envs.terminal import holder
from rlvr_envs.envs.terminal.observation import render_output, with_notices
from rlvr_envs.envs.terminal.shell import Launch
from rlvr_envs.errors import MissingRequirement, SandboxError
from rlvr_envs.sandbox.base import Sandbox

COLUMNS, ROWS = 80, 24
TERM = "screen"
PROMPT = r"\w\$ "

_TARGET = "main:0.0"
_ARGV = ("bash", "--norc", "--noprofile", "-i")
_START_S = 15.0
_POLL_S = 0.03
_QUIET_S = 0.25
_REST_S = 3.0
_COMMAND_BYTES = 12_000
_PIECE_CHARS = 2_000
_OPTIONS = (
    ("status", "off"),
    ("history-limit", "2000"),
    ("default-terminal", TERM),
    ("escape-time", "0"),
    ("remain-on-exit", "on"),
)


class ScreenFailed(Exception):
    """The screen cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class _View:
    """What a screen shows, and where its cursor is, both from 0."""

    lines: tuple[str, ...]
    column: int
    row: int


class Screen:
    """A tmux screen with a shell of the sandbox on it.

    Args:
        sandbox: Where the shell runs.
        launch: As whom, and with which variables.
        cwd: Where it starts.

    Raises:
        ScreenFailed: If the shell cannot be started.
        SandboxError: If the sandbox is gone, or tmux from this machine.
    """

    def __init__(self, sandbox: Sandbox, launch: Launch, *, cwd: str) -> None:
        with ExitStack() as undo:
            self._server = _server()
            tty = self._open(undo)
            undo.callback(os.close, tty)
            env = {**launch.env, "TERM": TERM, "PS1": PROMPT}
            try:
                self._process = sandbox.spawn(
                    _ARGV,
                    fds=(tty, tty, tty),
                    env=env,
                    cwd=cwd,
                    user=launch.user,
                    tty=True,
                )
            except OSError as error:
                raise ScreenFailed(f"no shell can be started: {error}") from error
            undo.callback(self._process.kill)
            self._await_prompt()
            self._undo = undo.pop_all()

    @property
    def is_running(self) -> bool:
        """Whether its shell has not exited."""
        return self._process.wait(0) is None

    def send(self, keys: Sequence[str], *, literal: bool) -> None:
        """Type.

        Args:
            keys: tmux key names or text, in order, none of them empty.
            literal: Whether key names, too, are text.
        """
        for part, as_text in _parts(keys, literal=literal):
            flags = ("-l",) if as_text else ()
            # tmux takes a last semicolon for the end of its own command.
            safe = [f"{key[:-1]}\\;" if key.endswith(";") else key for key in part]
            self._tmux("send-keys", *flags, "-t", _TARGET, "--", *safe)

    def settle(self, deadline: float) -> str:
        """Wait until the screen rests, and return it.

        It rests when it has not changed for a quarter of a second; three seconds
        are waited for that, or until the deadline. What a program shows after a
        longer pause is seen by the next look.

        Args:
            deadline: In seconds of `time.monotonic`.
        """
        now = time.monotonic()
        end = min(deadline, now + _REST_S)
        view, since = self._look(), now
        while now < end and now - since < _QUIET_S:
            time.sleep(_POLL_S)
            seen, now = self._look(), time.monotonic()
            if seen != view:
                view, since = seen, now
        return self._picture(view)

    def close(self) -> None:
        """End tmux and the shell, and remove their files; idempotent."""
        self._undo.close()

    def _open(self, undo: ExitStack) -> int:
        """Start tmux; return the pane's terminal, which nobody controls."""
        folder = Path(tempfile.mkdtemp(prefix="rlvr-screen-"))
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        self._server.socket_path = str(folder / "tmux")
        ready = folder / "ready"
        os.mkfifo(ready, 0o600)
        fifo = os.open(ready, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            undo.callback(self._server.cmd, "kill-server")
            self._tmux(*_opening(ready))
            _await(fifo)
        finally:
            os.close(fifo)
        name = self._tmux("display-message", "-p", "-t", _TARGET, "#{pane_tty}")[0]
        return os.open(name, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)

    def _await_prompt(self) -> None:
        """Keep what is typed first from being shown twice, by terminal and shell."""
        end = time.monotonic() + _REST_S
        while time.monotonic() < end and self.is_running:
            if any(line.strip() for line in self._look().lines):
                return
            time.sleep(_POLL_S)

    def _look(self) -> _View:
        where = "#{cursor_x} #{cursor_y}"
        *lines, cursor = self._tmux(
            *("capture-pane", "-p", "-t", _TARGET, ";"),
            *("display-message", "-p", "-t", _TARGET, where),
        )
        column, row = (int(number) for number in cursor.split())
        return _View(tuple(lines), column, row)

    def _picture(self, view: _View) -> str:
        lines = [line.rstrip() for line in view.lines]
        while lines and not lines[-1]:
            lines.pop()
        text = render_output("\n".join(lines).encode("utf-8", "backslashreplace"))
        notices = [f"cursor: row {view.row + 1}, column {view.column + 1}"]
        if not self.is_running:
            notices.append("the shell on this screen has ended; a new one comes next")
        return with_notices(text, notices)

    def _tmux(self, *args: str) -> list[str]:
        # -u: the characters of the screen are UTF-8, whatever our own locale is.
        done = self._server.cmd("-u", *args)
        if done.returncode:
            raise ScreenFailed(f"tmux {args[0]}: {' '.join(done.stderr)}")
        return list(done.stdout)


def check() -> None:
    """See that a screen can be had on this machine, without opening one.

    Raises:
        MissingRequirement: If tmux or libtmux is not installed.
    """
    if shutil.which("tmux") is None:
        raise MissingRequirement(
            "The screen tools need tmux on the host.",
            remedy="apt-get install tmux.",
        )
    if find_spec("libtmux") is None:
        raise MissingRequirement(
            "The screen tools need libtmux.",
            remedy="pip install 'rlvr-envs[terminal]'.",
        )


def _server() -> Any:
    try:
        check()
    except MissingRequirement as error:
        raise SandboxError(f"A screen was to be had before: {error}") from error
    libtmux = importlib.import_module("libtmux")
    return libtmux.Server(socket_path="unset", config_file=os.devnull)


def _opening(ready: Path) -> list[str]:
    """Return the tmux command that sets it up and opens the one pane."""
    argv = [sys.executable, "-I", "-S", holder.__file__, str(ready), str(os.getpid())]
    options = [word for row in _OPTIONS for word in ("set-option", "-g", *row, ";")]
    size = ("-x", str(COLUMNS), "-y", str(ROWS))
    new = ("new-session", "-d", "-s", "main", *size, shlex.join(argv))
    return ["start-server", ";", *options, *new]


def _await(fifo: int) -> None:
    ready = select.poll()
    ready.register(fifo, select.POLLIN)
    if not ready.poll(_START_S * 1000):
        raise ScreenFailed("tmux did not come up")


def _parts(
    keys: Sequence[str], *, literal: bool
) -> Iterator[tuple[Sequence[str], bool]]:
    """Yield what one tmux command can carry, and whether it is text in any case."""
    part: list[str] = []
    room = _COMMAND_BYTES
    for key in keys:
        size = len(key.encode()) + 2
        if size > room and part:
            yield part, literal
            part, room = [], _COMMAND_BYTES
        if size > _COMMAND_BYTES:
            for start in range(0, len(key), _PIECE_CHARS):
                yield [key[start : start + _PIECE_CHARS]], True
            continue
        part.append(key)
        room -= size
    if part:
        yield part, literal
