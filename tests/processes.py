"""Processes that tests start, kill and wait for."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


def eventually(holds: Callable[[], object], *, within_s: float = 30.0) -> bool:
    """Wait for a condition; return whether it came true in time."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def pids_naming(text: str) -> list[int]:
    """Return the processes of this machine whose command line has a text in it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in command:
                found.append(int(entry.name))
    return found


@dataclass(frozen=True)
class Trainer:
    """Another process that uses our code.

    Attributes:
        line: The first one that it printed.
    """

    process: subprocess.Popen[str]
    line: str

    def kill(self) -> None:
        """End it as the kernel would."""
        self.process.kill()
        self.process.wait()


@contextmanager
def trainer(code: str, *args: str) -> Iterator[Trainer]:
    """Run code that prints a line and then waits for the end of its input."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        made = Trainer(process, process.stdout.readline().strip())
        try:
            yield made
        finally:
            made.kill()
