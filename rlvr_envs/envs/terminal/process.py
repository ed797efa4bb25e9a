"""One program of its own inside the sandbox, from its start to its end."""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from rlvr_envs.envs.terminal.capture import BLOCK_BYTES, Sink
from rlvr_envs.envs.terminal.lasting import join
from rlvr_envs.envs.terminal.shell import OutputPipe
from rlvr_envs.errors import SandboxError, boundary
from rlvr_envs.sandbox.base import Process, Sandbox, StepGroup

_REAP_S = 2.0


@dataclass(frozen=True, slots=True)
class Program:
    """What to run.

    Attributes:
        stdin: Its standard input, as a file; empty if there is none.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    user: int
    stdin: bytes = b""


def run_program(
    sandbox: Sandbox,
    program: Program,
    *,
    group: StepGroup,
    sinks: tuple[Sink, Sink],
    deadline: float,
) -> int | None:
    """Run a program until it exits, its sinks are full, or time is up.

    A program that it leaves behind does not hold it up, even with the pipes open.

    Args:
        sandbox: Where it runs.
        program: What runs.
        group: It joins this group, and is killed with it when it shall not go on.
        sinks: For standard output and standard error.
        deadline: In seconds of `time.monotonic`.

    Returns:
        The exit status; 0 if a sink was full; None at the deadline.

    Raises:
        OSError: If the program cannot be started.
        SandboxError: If the sandbox is gone.
    """
    with ExitStack() as undo:
        pipes = (OutputPipe(), OutputPipe())
        for pipe in pipes:
            undo.callback(pipe.close)
        process = _start(sandbox, program, pipes)
        join(group, process.pid)
        ended = _pump(process.pid, tuple(zip(pipes, sinks, strict=True)), deadline)
        if not ended:
            with boundary(SandboxError, "ending a step"):
                group.kill()
            process.kill()
        status = process.wait(_REAP_S)
        for pipe, sink in zip(pipes, sinks, strict=True):
            pipe.drain(sink)
    if any(sink.full for sink in sinks):
        return 0
    return status if ended else None


def _start(
    sandbox: Sandbox, program: Program, pipes: tuple[OutputPipe, OutputPipe]
) -> Process:
    memory = os.memfd_create("stdin", os.MFD_CLOEXEC)
    try:
        stdin = _as_file(memory, program.stdin)
        try:
            return sandbox.spawn(
                program.argv,
                fds=(stdin, pipes[0].write_fd, pipes[1].write_fd),
                env=program.env,
                cwd=program.cwd,
                user=program.user,
            )
        finally:
            os.close(stdin)
    finally:
        os.close(memory)


def _as_file(memory: int, data: bytes) -> int:
    """Return a read-only descriptor of a file that holds the data."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY)
    done = 0
    while done < len(data):
        done += os.pwrite(memory, data[done:], done)
    return os.open(f"/proc/self/fd/{memory}", os.O_RDONLY)


def _pump(
    pid: int, streams: Sequence[tuple[OutputPipe, Sink]], deadline: float
) -> bool:
    """Move output until the program exits; False if it has to be given up."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    for pipe, _ in streams:
        poll.register(pipe.read_fd, select.POLLIN)
    try:
        while True:
            left_ms = (deadline - time.monotonic()) * 1000.0
            ready = dict(poll.poll(max(0, math.ceil(left_ms))))
            for pipe, sink in streams:
                if pipe.read_fd in ready:
                    sink.feed(os.read(pipe.read_fd, BLOCK_BYTES))
            if pidfd in ready:
                return True
            if left_ms <= 0 or any(sink.full for _, sink in streams):
                return False
    finally:
        os.close(pidfd)
