"""What an agent can do in a sandbox, each as one call that always returns."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from rlvr_envs.envs.terminal.capture import EXCERPT_BYTES, Capture, LineWindow, Sink
from rlvr_envs.envs.terminal.lasting import LastingShell, step_group
from rlvr_envs.envs.terminal.observation import (
    render_file,
    with_notices,
    without_last_newline,
)
from rlvr_envs.envs.terminal.process import Program, run_program
from rlvr_envs.envs.terminal.results import (
    Printed,
    Step,
    finish,
    not_started,
    printed,
    printed_apart,
)
from rlvr_envs.envs.terminal.screen import Screen, ScreenFailed
from rlvr_envs.envs.terminal.shell import Ended, Launch
from rlvr_envs.errors import SandboxError
from rlvr_envs.records import ErrorKind, ToolResult
from rlvr_envs.sandbox.base import Sandbox

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HOMES = {0: ("root", "/root"), 1000: ("agent", "/home/agent")}
_ERROR_BYTES = 1 << 16


def base_environment(user: int) -> dict[str, str]:
    """Return the variables that every shell and program of an agent starts with."""
    name, home = _HOMES.get(user, (str(user), "/"))
    return {
        "PATH": PATH,
        "HOME": home,
        "USER": name,
        "LOGNAME": name,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "PYTHONHASHSEED": "0",
    }


class TerminalSession:
    """The agent's side of one episode: a shell, programs, files, a screen.

    A call never raises for what the agent did. Output of a background job that
    arrives after its command ended belongs to the next `bash` call.

    Args:
        sandbox: Started; it outlives the session, which does not own it.
        user: Uid of everything that the agent runs.
        workdir: Where the shell starts.
        env: Variables beside `base_environment`; they win.
        step_timeout_s: Wall time of one call; positive and finite.
        grace_s: How long an interrupted shell may take before it is replaced.
        spool_bytes: What is kept of one call's output, half head, half tail.

    Raises:
        ValueError: If the step timeout or the grace is not positive and finite.
    """

    def __init__(  # noqa: PLR0913 - each is a fact of its own
        self,
        sandbox: Sandbox,
        *,
        user: int = 1000,
        workdir: str = "/",
        env: Mapping[str, str] | None = None,
        step_timeout_s: float = 30.0,
        grace_s: float = 1.0,
        spool_bytes: int = 16 << 20,
    ) -> None:
        self._step_timeout_s = _seconds(step_timeout_s, "step_timeout_s")
        self._grace_s = _seconds(grace_s, "grace_s")
        self._sandbox = sandbox
        variables = {**base_environment(user), **(env or {})}
        self._launch = Launch(user, workdir, variables)
        self._spool_bytes = spool_bytes
        self._left_s = math.inf
        self._shell: LastingShell | None = None
        self._screen: Screen | None = None

    @property
    def alive(self) -> bool:
        """Whether it was started and not closed."""
        return self._shell is not None

    def launch(self) -> None:
        """Begin to start the shell, and return before it is up.

        Raises:
            SandboxError: If the sandbox is gone or its image holds no bash.
        """
        self._shell = LastingShell(self._sandbox, self._launch, grace_s=self._grace_s)

    def start(self) -> None:
        """Start the shell, or wait until a launched one is up.

        Raises:
            SandboxError: If the sandbox is gone or its image holds no bash.
        """
        if self._shell is None:
            self.launch()
        self._living_shell().ready()

    def close(self) -> None:
        """End the shell and the screen; idempotent."""
        self._drop_screen()
        shell, self._shell = self._shell, None
        if shell is not None:
            shell.close()

    def limit_s(self, seconds: float) -> None:
        """Say how much of the episode's time is left for the coming call.

        Raises:
            ValueError: If it is not positive and finite.
        """
        self._left_s = _seconds(seconds, "seconds")

    def bash(self, command: str) -> ToolResult:
        """Run a command line in the shell.

        Args:
            command: Encodable text without NULs.

        Raises:
            SandboxError: If the sandbox is gone.
        """
        step = self._begin()
        capture = Capture(self._spool_bytes)
        ended = self._living_shell().run(step, command, capture)
        return finish(step, printed(capture), ended)

    def exec(
        self, argv: Sequence[str], *, cwd: str = "", stdin: str = ""
    ) -> ToolResult:
        """Run one program, without a shell, with two streams that are kept apart.

        Args:
            argv: As `posix.check_argv` accepts it.
            cwd: Absolute, or relative to the shell's folder; by default that one.
            stdin: What it can read.

        Raises:
            SandboxError: If the sandbox is gone.
        """
        step = self._begin()
        program = self._program(argv, cwd=cwd, stdin=stdin.encode())
        out, err = Capture(self._spool_bytes // 2), Capture(self._spool_bytes // 2)
        try:
            ended = self._run(step, program, (out, err))
        except OSError as error:
            return not_started(step, argv[0], error)
        return finish(step, printed_apart(out, err), ended)

    def read_file(self, path: str, *, first: int = 1, count: int = 0) -> ToolResult:
        """Read a file as the agent's user.

        Args:
            path: Absolute, or relative to the shell's folder.
            first: Number of the first line, from 1.
            count: How many lines; 0 for all. At most 256 KiB are shown either way.

        Raises:
            SandboxError: If the sandbox is gone.
        """
        step = self._begin()
        window = LineWindow(first=first, count=count, limit_bytes=EXCERPT_BYTES)
        failure = self._tool(step, ("cat", "--", _operand(path)), window)
        if failure is not None:
            return failure
        step.tell_extent(window)
        kept = bytes(window.kept)
        text = with_notices(without_last_newline(render_file(kept)), step.notices)
        return ToolResult(text, exit_code=0, bytes_total=len(kept), raw=kept)

    def write_file(
        self, path: str, content: str, *, append: bool = False, mode: str = ""
    ) -> ToolResult:
        """Write a text file as the agent's user.

        Args:
            path: Absolute, or relative to the shell's folder; its folder exists.
            content: Written as it is, in UTF-8, no newline added.
            append: Whether to keep what is there.
            mode: Permission bits in octal, set afterwards; empty to leave them.

        Raises:
            SandboxError: If the sandbox is gone.
        """
        step = self._begin()
        data, name = content.encode(), _operand(path)
        tee = ("tee", "-a", "--", name) if append else ("tee", "--", name)
        failure = self._tool(step, tee, _Nowhere(), stdin=data)
        if failure is None and mode:
            failure = self._tool(step, ("chmod", mode, "--", name), _Nowhere())
        if failure is not None:
            return failure
        verb = "appended" if append else "wrote"
        text = f"{verb} {len(data)} bytes to {render_file(path.encode())}"
        return ToolResult(text, exit_code=0, bytes_total=len(text.encode()))

    def screen(self) -> ToolResult:
        """Return what the terminal screen shows; the first call opens it.

        Raises:
            SandboxError: If the sandbox is gone.
        """
        return self._on_screen((), literal=False)

    def send_keys(self, keys: Sequence[str], *, literal: bool = False) -> ToolResult:
        """Type on the terminal screen, wait until it rests, and return it.

        Args:
            keys: tmux key names (``Enter``, ``C-c``) or text, in order.
            literal: Whether a key name, too, is text.

        Raises:
            SandboxError: If the sandbox is gone.
        """
        return self._on_screen(keys, literal=literal)

    def submit(self, answer: str = "") -> ToolResult:
        """End the episode; an answer is recorded and judged by nobody."""
        raw = answer.encode()
        return ToolResult("submitted", raw=raw, submits=True)

    def _on_screen(self, keys: Sequence[str], *, literal: bool) -> ToolResult:
        step = self._begin()
        try:
            screen = self._living_screen()
            if keys:
                screen.send(keys, literal=literal)
            shown = screen.settle(step.deadline)
        except ScreenFailed as error:
            self._drop_screen()
            text = f"The screen failed: {error}."
            return ToolResult(text, ok=False, error_kind=ErrorKind.TOOL_ERROR)
        raw = shown.encode()
        return ToolResult(shown, bytes_total=len(raw), raw=raw)

    def _living_screen(self) -> Screen:
        if self._screen is not None and not self._screen.is_running:
            self._drop_screen()
        if self._screen is None:
            cwd = self._living_shell().folder("")
            self._screen = Screen(self._sandbox, self._launch, cwd=cwd)
        return self._screen

    def _drop_screen(self) -> None:
        screen, self._screen = self._screen, None
        if screen is not None:
            screen.close()

    def _begin(self) -> Step:
        left_s, self._left_s = self._left_s, math.inf
        limit = "episode" if left_s < self._step_timeout_s else "step"
        limit_s = min(left_s, self._step_timeout_s)
        return Step(time.monotonic() + limit_s, limit_s, limit)

    def _living_shell(self) -> LastingShell:
        if self._shell is None:
            raise SandboxError("The session was not started, or is closed.")
        return self._shell

    def _program(
        self, argv: Sequence[str], *, cwd: str = "", stdin: bytes = b""
    ) -> Program:
        folder = self._living_shell().folder(cwd)
        return Program(argv, self._launch.env, folder, self._launch.user, stdin)

    def _run(self, step: Step, program: Program, sinks: tuple[Sink, Sink]) -> Ended:
        with step_group(self._sandbox) as group:
            status = run_program(
                self._sandbox,
                program,
                group=group,
                sinks=sinks,
                deadline=step.deadline,
            )
        if status is None:
            step.tell_timeout()
            return Ended(-1)
        return Ended(status)

    def _tool(
        self, step: Step, argv: Sequence[str], sink: Sink, *, stdin: bytes = b""
    ) -> ToolResult | None:
        """Run a small program of the system; return what went wrong, if anything."""
        errors = Capture(_ERROR_BYTES)
        program = self._program(argv, stdin=stdin)
        try:
            ended = self._run(step, program, (sink, errors))
        except OSError as error:
            return not_started(step, argv[0], error)
        if ended.status == 0:
            return None
        said = printed(errors)
        reason = Printed(said.text.removeprefix(f"{argv[0]}: "), said.raw, said.total)
        return finish(step, reason, ended, error_kind=ErrorKind.TOOL_ERROR)


class _Nowhere:
    """Takes a stream and forgets it."""

    full = False

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""


def _seconds(value: float, name: str) -> float:
    if isinstance(value, bool) or not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive and finite, not {value!r}.")
    return float(value)


def _operand(path: str) -> str:
    """Keep a file whose name is a dash from meaning the standard streams."""
    return "./-" if path == "-" else path
