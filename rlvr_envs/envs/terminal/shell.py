r"""The agent's bash: one process, driven from outside the text it reads or prints.

The shell runs `DRIVER`, a loop that reports, waits and evaluates. Two descriptors
belong to the driver: a socket (200), on which it reads the identity of the next
command and writes ``identity status pid``, and a memory file (201) that holds the
command itself, ended by a NUL. While a command is evaluated both are closed; the
copies that bash keeps to restore them are closed on exec, so that no program
inherits them. Standard input is empty, standard output and error are one pipe.

The driver fails closed. If a command breaks what it stands on (functions named
``builtin``, disabled builtins, read-only variables, closed descriptors, a limit, a
restricted shell), its loop ends, the shell exits, and the session starts a new one.

A command is interrupted by SIGRTMAX, whose trap breaks out of every loop, the
driver's included; the driver then starts over. Unlike SIGINT this spares the shell
with its folder and variables. A shell that removed the trap dies of the signal.
"""

from __future__ import annotations

import fcntl
import math
import os
import secrets
import select
import signal
import socket
import struct
import termios
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from rlvr_envs.envs.terminal.capture import BLOCK_BYTES, Capture, Sink
from rlvr_envs.sandbox.base import Process, Sandbox

_MOST_PIDS = 1 << 22
CHANNEL_FD = 200
COMMAND_FD = 201

# One line, so that the line numbers in bash's messages are those of the command.
# A backslash keeps aliases out, `builtin` keeps functions out. A command that bash
# skips (noexec, extdebug) counts as true, so the loop must end where its test is true.
_REPORT = (
    r"__rlvr_status=$? && \builtin printf '%s %s %s\n' "
    rf'"$__rlvr_id" "$__rlvr_status" "$$" >&{CHANNEL_FD} && __rlvr_id='
)
_RECEIVE = (
    rf"\builtin eval '\builtin read -r -u {CHANNEL_FD} __rlvr_id' "
    r"&& [[ $__rlvr_id ]] "
    rf"&& IFS= \builtin read -r -d '' -u {COMMAND_FD} __rlvr_cmd"
)
# So that `$?` is the status of the command before; under errexit that would exit.
_RESTORE = (
    r"{ if [[ $- = *e* || $__rlvr_status = 0 ]]; then [[ 1 ]]; "
    r"elif [[ $__rlvr_status = 1 ]]; then ! [[ 1 ]]; "
    r'else (\builtin exit "$__rlvr_status"); fi; } 2>&-'
)
DRIVER = (
    rf"[[ -v __rlvr_id ]] || \exec {CHANNEL_FD}<&3 {COMMAND_FD}<&4 3<&- 4<&-; "
    r"\builtin trap '\builtin break 999 2>&-' SIGRTMAX; "
    rf"until {{ {_REPORT} && {_RECEIVE}; }} 2>&- "
    r"|| { __rlvr_id=-; \builtin break; }; { [[ $__rlvr_id = - ]]; } 2>&-; "
    rf'do {{ {_RESTORE}; \builtin eval "$__rlvr_cmd"; }} '
    rf"{CHANNEL_FD}<&- {COMMAND_FD}<&-; "
    r"done; "
    r'[[ $__rlvr_id != - ]] && \builtin eval "$BASH_EXECUTION_STRING"'
)

_ARGV = ("bash", "--norc", "--noprofile", "-O", "expand_aliases", "-c", DRIVER)
_START_S = 10.0
_REAP_S = 2.0
_LINE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Launch:
    """How a shell is started.

    Attributes:
        workdir: Where it starts; the root if it cannot be entered.
    """

    user: int
    workdir: str
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        status: Its exit status, or the shell's if that is what ended.
        lost: Whether there is no shell any more.
    """

    status: int
    lost: bool = False


class ShellFailed(Exception):
    """A shell did not start; the message says why."""


class OutputPipe:
    """The pipe that a shell and all its programs print into.

    Our own copy of its writing end keeps it open from one shell to the next.
    """

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe2(os.O_CLOEXEC)
        # Programs reopen /dev/stdout, under a uid that does not own the pipe.
        os.fchmod(self.write_fd, 0o622)
        os.set_blocking(self.read_fd, False)

    def drain(self, sink: Sink) -> None:
        """Move what is in the pipe now, and nothing that comes later."""
        answer = fcntl.ioctl(self.read_fd, termios.FIONREAD, b"\0\0\0\0")
        left = struct.unpack("i", answer)[0]
        while left > 0:
            chunk = os.read(self.read_fd, min(left, BLOCK_BYTES))
            sink.feed(chunk)
            left -= len(chunk)

    def close(self) -> None:
        """Close both ends; once."""
        os.close(self.read_fd)
        os.close(self.write_fd)


class Shell:
    """One bash process inside a sandbox; `ready` comes before the first command.

    Raises:
        ShellFailed: If bash cannot be started there.
        SandboxError: If the sandbox is gone.
    """

    def __init__(self, sandbox: Sandbox, launch: Launch, output: OutputPipe) -> None:
        self.inner_pid = 0
        self._output = output
        self._heard = b""
        self._ids = (b"", b"")
        self._nudged = (True, True)
        self._exit: Ended | None = None
        with ExitStack() as undo:
            self._open(undo)
            self._process = self._spawn(sandbox, launch)
            self._pidfd = os.pidfd_open(self._process.pid)
            undo.callback(os.close, self._pidfd)
            self._poll = select.poll()
            for fd in (output.read_fd, self._channel.fileno(), self._pidfd):
                self._poll.register(fd, select.POLLIN)
            undo.callback(self._process.kill)
            self._undo = undo.pop_all()

    def ready(self) -> None:
        """Wait until it takes commands.

        Raises:
            ShellFailed: If it ended instead; it is closed then.
        """
        try:
            self._greet()
        except BaseException:
            self.close()
            raise
        self._nudged = (False, False)

    @property
    def pid(self) -> int:
        """Process id on the host."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not exited yet."""
        if self._exit is None and self._pidfd in dict(self._poll.poll(0)):
            self._exit = self._reap()
        return self._exit is None

    def send(self, command: str) -> None:
        """Start a command.

        Args:
            command: Encodable text without NULs.
        """
        os.pwrite(self._memory, command.encode() + b"\0", 0)
        os.lseek(self._reader, 0, os.SEEK_SET)
        self._ids = (secrets.token_hex(8).encode(), self._ids[0])
        self._nudged = (False, self._nudged[0])
        with suppress(OSError):  # the shell is gone, which `wait` will find
            self._channel.send(self._ids[0] + b"\n")

    def wait(self, capture: Capture, deadline: float) -> Ended | None:
        """Collect output until the command ends.

        Args:
            capture: Takes what is printed until then.
            deadline: In seconds of `time.monotonic`.

        Returns:
            How it ended, or None at the deadline.
        """
        while True:
            left_ms = (deadline - time.monotonic()) * 1000.0
            ready = dict(self._poll.poll(max(0, math.ceil(left_ms))))
            if self._output.read_fd in ready:
                capture.feed(os.read(self._output.read_fd, BLOCK_BYTES))
            ended = self._look(ready)
            if ended is not None:
                self._output.drain(capture)
                return ended
            if left_ms <= 0:
                return None

    def interrupt(self) -> None:
        """Make the shell give up its command as soon as it can."""
        self._nudged = (True, self._nudged[1])
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGRTMAX)

    def kill(self) -> None:
        """Kill the shell; it is an error of nobody if it is gone."""
        self._process.kill()

    def close(self) -> None:
        """Kill the shell and close our ends; idempotent."""
        self._undo.close()

    def _open(self, undo: ExitStack) -> None:
        self._channel, self._theirs = socket.socketpair()
        undo.callback(self._channel.close)
        undo.callback(self._theirs.close)
        self._channel.settimeout(0)
        self._memory = os.memfd_create("command", os.MFD_CLOEXEC)
        undo.callback(os.close, self._memory)
        # A second description: read-only, with a position of its own.
        self._reader = os.open(f"/proc/self/fd/{self._memory}", os.O_RDONLY)
        undo.callback(os.close, self._reader)

    def _spawn(self, sandbox: Sandbox, launch: Launch) -> Process:
        null = os.open(os.devnull, os.O_RDONLY)
        write = self._output.write_fd
        fds = (null, write, write, self._theirs.fileno(), self._reader)
        try:
            return _spawn_in(sandbox, launch, fds)
        except OSError as error:
            raise ShellFailed(os.strerror(error.errno or 0)) from error
        finally:
            os.close(null)
            self._theirs.close()

    def _greet(self) -> None:
        """Wait for the driver's first report."""
        deadline = time.monotonic() + _START_S
        while not self.inner_pid:
            left_ms = (deadline - time.monotonic()) * 1000.0
            ready = dict(self._poll.poll(max(0, math.ceil(left_ms))))
            if self._look(ready) is not None or left_ms <= 0:
                raise ShellFailed("bash ended as soon as it had started")
            if self._output.read_fd in ready and self._pidfd not in ready:
                # Somebody else prints; the pipe is read in the coming step.
                self._poll.unregister(self._output.read_fd)
        self._poll.register(self._output.read_fd, select.POLLIN)

    def _look(self, ready: Mapping[int, int]) -> Ended | None:
        if self._channel.fileno() in ready:
            ended = self._listen()
            if ended is not None:
                return ended
        if self._pidfd in ready:
            self._exit = self._exit or self._reap()
            return self._exit
        return None

    def _listen(self) -> Ended | None:
        with suppress(BlockingIOError, ConnectionResetError):
            heard = self._channel.recv(_LINE_BYTES)
            if not heard:
                self._poll.unregister(self._channel.fileno())
            self._heard += heard
        while b"\n" in self._heard:
            line, _, self._heard = self._heard.partition(b"\n")
            ended = self._understand(line)
            if ended is not None:
                return ended
        return self._distrust() if len(self._heard) > _LINE_BYTES else None

    def _understand(self, line: bytes) -> Ended | None:
        """Read one report: of this command, or a second one of the one before.

        Second reports, and ones without identity, come of a signal that met the
        driver between two commands: it started over and reported again.
        """
        identity, _, rest = line.partition(b" ")
        status, _, pid = rest.partition(b" ")
        if not (_is_number(status, 255) and _is_number(pid, _MOST_PIDS)):
            return self._distrust()
        current, previous = self._ids
        if identity == current and identity:
            return Ended(int(status))
        if identity in (b"", previous) and any(self._nudged):
            self.inner_pid = self.inner_pid or int(pid)
            return None
        return self._distrust()

    def _distrust(self) -> Ended:
        """Give up a shell whose reports make no sense."""
        self._process.kill()
        self._exit = self._exit or self._reap()
        return self._exit

    def _reap(self) -> Ended:
        status = self._process.wait(_REAP_S)
        return Ended(-1 if status is None else status, lost=True)


def _is_number(text: bytes, most: int) -> bool:
    """Whether a report's field is what only the driver writes there."""
    return text.isdigit() and len(text) <= len(str(most)) and int(text) <= most


def _spawn_in(sandbox: Sandbox, launch: Launch, fds: tuple[int, ...]) -> Process:
    """Start bash in its folder, or in the root if that one is gone."""
    try:
        return sandbox.spawn(
            _ARGV, fds=fds, env=launch.env, cwd=launch.workdir, user=launch.user
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return sandbox.spawn(_ARGV, fds=fds, env=launch.env, cwd="/", user=launch.user)
