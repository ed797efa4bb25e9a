"""From what a call did to the result that the agent reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlvr_envs.envs.terminal.capture import Capture, LineWindow
from rlvr_envs.envs.terminal.observation import (
    render_file,
    render_output,
    with_notices,
    without_last_newline,
)
from rlvr_envs.envs.terminal.shell import Ended
from rlvr_envs.records import ErrorKind, Event, ToolResult

LOST_STATE = "its working directory, variables and functions are lost"
_RESTARTED = Event("shell_restarted")


@dataclass(slots=True)
class Step:
    """One call: when it must end, and what the harness has to say about it.

    Attributes:
        deadline: In seconds of `time.monotonic`.
        limit: Which limit set it: ``step`` or ``episode``.
        notices: Remarks for the agent, without brackets.
    """

    deadline: float
    limit_s: float
    limit: str
    timed_out: bool = False
    notices: list[str] = field(default_factory=list)
    events: tuple[Event, ...] = ()

    def tell_timeout(self, *, lost: bool = False) -> None:
        """Note that the call was cut short, and what became of the shell."""
        self.timed_out = True
        fate = "everything that it had started was killed"
        if lost:
            fate = f"the shell had to be replaced: {LOST_STATE}"
        self.notices.append(f"timed out after {self.limit_s:g} s; {fate}")

    def tell_restart(self, how: str) -> None:
        """Note that there is a new shell; ``how`` says what the old one did."""
        if not self.timed_out:
            self.notices.append(f"the shell {how} and was started again; {LOST_STATE}")
        self.events = (_RESTARTED,)

    def tell_extent(self, window: LineWindow) -> None:
        """Note what a reader of some lines cannot see from them."""
        last = window.first + window.lines - 1
        if window.full:
            self.notices.append(f"lines {window.first} to {last}; the file may go on")
        elif not window.total:
            self.notices.append("the file is empty")
        elif not window.kept:
            self.notices.append(f"the file ends before line {window.first}")
        elif not window.kept.endswith(b"\n"):
            self.notices.append("no newline at the end of the file")


@dataclass(frozen=True, slots=True)
class Printed:
    """What a call printed.

    Attributes:
        text: Rendered, without the newline at its end.
        raw: The bytes that were kept.
        omitted: Bytes that the text left out of its middle.
    """

    text: str = ""
    raw: bytes = b""
    total: int = 0
    omitted: int = 0


def printed(capture: Capture) -> Printed:
    """Return one stream."""
    part = capture.excerpt()
    text = render_output(part.head)
    if part.omitted_bytes:
        marker = f"[... {part.omitted_bytes} bytes omitted ...]"
        text = f"{text}\n{marker}\n{render_output(part.tail)}"
    return Printed(
        without_last_newline(text), capture.raw(), capture.total, part.omitted_bytes
    )


def printed_apart(out: Capture, err: Capture) -> Printed:
    """Return two streams, each under its heading; an empty one is a heading alone."""
    first, second = printed(out), printed(err)
    lines = ["[stdout]", first.text, "[stderr]", second.text]
    raw = b"[stdout]\n" + first.raw + b"\n[stderr]\n" + second.raw
    return Printed(
        "\n".join(line for line in lines if line),
        raw,
        first.total + second.total,
        first.omitted + second.omitted,
    )


def finish(
    step: Step,
    output: Printed,
    ended: Ended,
    *,
    error_kind: ErrorKind = ErrorKind.NONE,
) -> ToolResult:
    """Return the result of a call that ran something.

    Args:
        step: What the harness has to say.
        output: What was printed.
        ended: Its status counts unless the step timed out.
        error_kind: What to call a failure; by default it follows from the rest.
    """
    kind = _kind(step, ended)
    if kind is ErrorKind.NONZERO_EXIT and error_kind:
        kind = error_kind
    notices = list(step.notices)
    if kind not in (ErrorKind.NONE, ErrorKind.TIMEOUT, ErrorKind.SHELL_LOST):
        notices.append(f"exit status {ended.status}")
    return ToolResult(
        with_notices(output.text, notices),
        ok=kind is ErrorKind.NONE,
        error_kind=kind,
        exit_code=-1 if step.timed_out else ended.status,
        timed_out=step.timed_out,
        limit=step.limit if step.timed_out else "",
        bytes_total=output.total,
        raw=output.raw,
        events=step.events,
        omitted_bytes=output.omitted,
    )


def not_started(step: Step, name: str, error: OSError) -> ToolResult:
    """Say why a program could not be started, with the status of a shell."""
    shown = render_file(name.encode())
    text = f"{shown}: cannot be started: {error.strerror or error}"
    ended = Ended(127 if isinstance(error, FileNotFoundError) else 126)
    output = Printed(text, text.encode(), len(text.encode()))
    return finish(step, output, ended, error_kind=ErrorKind.TOOL_ERROR)


def _kind(step: Step, ended: Ended) -> ErrorKind:
    if step.timed_out:
        return ErrorKind.TIMEOUT
    if ended.lost:
        return ErrorKind.SHELL_LOST
    return ErrorKind.NONZERO_EXIT if ended.status else ErrorKind.NONE
