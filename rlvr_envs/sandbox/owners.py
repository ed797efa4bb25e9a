"""Names that tell which process something on the host belongs to."""

from __future__ import annotations

import os
import re
from pathlib import Path

_NAME = re.compile(r"(\d+)-(\d+)-(\d+)(?:-.*)?")


def owner_name() -> str:
    """Return this process's name: its pid namespace, its pid, its start time.

    A pid alone is reused; a pid of another container means somebody else.
    """
    pid = os.getpid()
    return f"{_pid_namespace()}-{pid}-{start_ticks(pid)}"


def is_abandoned(name: str) -> bool:
    """Whether a thing named after its owner is known to have outlived it.

    Args:
        name: `owner_name`, alone or followed by ``-`` and anything.

    Returns:
        False for names of another form and for owners that cannot be seen from
        here: what may be alive is left alone.
    """
    match = _NAME.fullmatch(name)
    if match is None or int(match[1]) != _pid_namespace():
        return False
    try:
        return start_ticks(int(match[2])) != int(match[3])
    except ProcessLookupError:
        return True


def start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since the machine did.

    Raises:
        ProcessLookupError: If there is no such process.
    """
    return int(stat_fields(pid)[19])


def stat_fields(pid: int) -> list[bytes]:
    """Return the fields of ``/proc/<pid>/stat`` that follow the command's name.

    The state is the first, the parent's pid the second, the start time the 20th.

    Raises:
        ProcessLookupError: If there is no such process.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError as error:
        raise ProcessLookupError(pid) from error
    return text[text.rindex(b")") + 2 :].split()


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino
