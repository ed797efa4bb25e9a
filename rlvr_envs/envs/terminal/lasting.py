"""A shell that lasts: when it goes, there is a new one, and the agent is told."""

from __future__ import annotations

import time
from contextlib import suppress

from rlvr_envs.envs.terminal.capture import Capture
from rlvr_envs.envs.terminal.results import Step
from rlvr_envs.envs.terminal.shell import (
    Ended,
    Launch,
    OutputPipe,
    Shell,
    ShellFailed,
)
from rlvr_envs.errors import SandboxError, boundary
from rlvr_envs.sandbox.base import Sandbox, StepGroup

_PATIENCE_S = 0.05


class LastingShell:
    """The persistent shell of an episode; `ready` comes before the first command.

    Args:
        grace_s: How long an interrupted shell may take before it is replaced.

    Raises:
        SandboxError: If the sandbox is gone or its image holds no bash.
    """

    def __init__(self, sandbox: Sandbox, launch: Launch, *, grace_s: float) -> None:
        self._sandbox = sandbox
        self._launch = launch
        self._grace_s = grace_s
        self._output = OutputPipe()
        try:
            self._shell: Shell | None = Shell(sandbox, launch, self._output)
        except BaseException as error:
            self._output.close()
            if isinstance(error, ShellFailed):
                text = f"No shell could be started: {error}."
                raise SandboxError(text) from error
            raise

    def ready(self) -> None:
        """Wait until the shell takes commands.

        Raises:
            SandboxError: If it ended as soon as it had started.
        """
        if self._shell is None:
            return
        try:
            self._shell.ready()
        except ShellFailed as error:
            self._shell = None
            text = f"No shell could be started: {error}."
            raise SandboxError(text) from error

    def run(self, step: Step, command: str, capture: Capture) -> Ended:
        """Run a command; afterwards there is a shell, unless none can be had.

        Raises:
            SandboxError: If the sandbox is gone.
        """
        shell = self._living(step)
        if shell is None:
            return Ended(-1, lost=True)
        with step_group(self._sandbox) as group:
            join(group, shell.pid)
            shell.send(command)
            ended = shell.wait(capture, step.deadline)
            if ended is None:
                ended = self._abort(shell, group, capture)
                step.tell_timeout(lost=ended.lost)
        if ended.lost:
            step.tell_restart(_how_ended(ended.status))
            self._restart(step)
        return ended

    def folder(self, path: str) -> str:
        """Return a path that means inside what this one means to the shell.

        Args:
            path: Absolute, or relative to the shell's folder, or empty for it.
        """
        if path.startswith("/"):
            return path
        if self._shell is None or not self._shell.is_running:
            return f"{self._launch.workdir}/{path}"
        return f"/proc/{self._shell.inner_pid}/cwd/{path}"

    def close(self) -> None:
        """End the shell; once."""
        if self._shell is not None:
            self._shell.close()
        self._output.close()

    def _living(self, step: Step) -> Shell | None:
        """Return the shell, a new one if it went between two commands."""
        if self._shell is None or not self._shell.is_running:
            step.tell_restart("had ended")
            self._restart(step)
        return self._shell

    def _restart(self, step: Step) -> None:
        shell, self._shell = self._shell, None
        if shell is not None:
            shell.close()
        try:
            shell = Shell(self._sandbox, self._launch, self._output)
            shell.ready()
            self._shell = shell
        except ShellFailed as error:
            step.notices.append(f"no new shell could be started: {error}")

    def _abort(self, shell: Shell, group: StepGroup, capture: Capture) -> Ended:
        """Stop a command that is out of time; the shell too, if it must be.

        The signal comes before the shell goes on: bash acts on it as soon as it finds
        that the program it waits for is gone, and so never starts the next one.
        """
        end = time.monotonic() + self._grace_s
        while (now := time.monotonic()) < end:
            with boundary(SandboxError, "ending a step"):
                group.kill(spare=shell.pid, wake=shell.interrupt)
            ended = shell.wait(capture, min(end, now + _PATIENCE_S))
            if ended is not None:
                return ended
        with boundary(SandboxError, "ending a step"):
            group.kill()
        shell.kill()
        lost = shell.wait(capture, time.monotonic() + _PATIENCE_S)
        return lost if lost and lost.lost else Ended(-1, lost=True)


class step_group:  # noqa: N801 - it reads as a noun: with step_group(...) as group
    """Give a step its group; a group that fails is the sandbox's fault."""

    __slots__ = ("_group", "_sandbox")

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def __enter__(self) -> StepGroup:
        with boundary(SandboxError, "opening a step"):
            self._group = self._sandbox.step_group()
        return self._group

    def __exit__(self, *error: object) -> None:
        with boundary(SandboxError, "closing a step"):
            self._group.close()


def join(group: StepGroup, pid: int) -> None:
    """Put a process into a group, unless it has ended."""
    with boundary(SandboxError, "opening a step"), suppress(ProcessLookupError):
        group.add(pid)


def _how_ended(status: int) -> str:
    if status > 128:
        return f"was killed by signal {status - 128}"
    return f"exited with status {status}" if status >= 0 else "ended"
