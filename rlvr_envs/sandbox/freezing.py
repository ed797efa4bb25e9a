"""Stop every process of a control group, see that they stopped, kill, count."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.cgroups import Group
from rlvr_envs.sandbox.owners import stat_fields

FREEZE_S = 5.0
"""How long processes may take to stop; a fork bomb takes some 30 ms."""

_COMMAND_BYTES = 200
_ASK_S = 0.0002


def freeze(group: Group, *, timeout_s: float = FREEZE_S) -> None:
    """Stop every process; nothing in the group runs when this returns.

    Raises:
        SandboxError: If one does not stop in time, or the group is gone.
    """
    wait = _freeze_unified if group.unified is not None else _freeze_legacy
    try:
        frozen = wait(group.stopper, time.monotonic() + timeout_s)
    except OSError as error:
        raise SandboxError(f"The sandbox cannot be frozen: {error}.") from error
    if not frozen:
        thaw(group)
        raise SandboxError(f"Processes did not stop within {timeout_s} s.")


def thaw(group: Group) -> None:
    """Let frozen processes go on; a group that is gone is no error."""
    file, word = (
        ("cgroup.freeze", "0")
        if group.unified is not None
        else ("freezer.state", "THAWED")
    )
    try:
        _write(group.stopper / file, word)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise SandboxError(f"The sandbox cannot be thawed: {error}.") from error


def kill_all(group: Group) -> None:
    """Send SIGKILL to every process, frozen or not; does not wait."""
    if group.unified is not None and (group.unified / "cgroup.kill").exists():
        _write(group.unified / "cgroup.kill", "1")
        return
    for pid in group.members():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    thaw(group)


def wait_until_empty(group: Group, *, timeout_s: float) -> int:
    """Return how many processes are left: 0, or more once the time is up."""
    deadline = time.monotonic() + timeout_s
    while members := group.members():
        if time.monotonic() > deadline:
            return len(members)
        time.sleep(0.0005)
    return 0


def census(group: Group, *, except_pids: Collection[int]) -> tuple[str, ...]:
    """Return the command lines of the group's processes, sorted.

    Args:
        group: Frozen, so that the list is of one moment.
        except_pids: The harness's own.
    """
    commands = (
        command_of(pid) for pid in group.members() if pid not in set(except_pids)
    )
    return tuple(sorted(command for command in commands if command))


def command_of(pid: int) -> str:
    """Return a process's command line, clipped; its name where it has none.

    Empty for a process that is gone or only waits to be reaped.
    """
    try:
        if stat_fields(pid)[0] in (b"Z", b"X"):
            return ""
        text = Path(f"/proc/{pid}/cmdline").read_bytes()
        if not text.strip(b"\0"):
            text = b"[" + Path(f"/proc/{pid}/comm").read_bytes().strip() + b"]"
    except (OSError, ProcessLookupError):
        return ""
    words = text.rstrip(b"\0").replace(b"\0", b" ")[:_COMMAND_BYTES]
    return words.decode(errors="backslashreplace")


def _freeze_unified(folder: Path, deadline: float) -> bool:
    _write(folder / "cgroup.freeze", "1")
    with (folder / "cgroup.events").open("rb", buffering=0) as events:

        def frozen() -> bool:
            events.seek(0)
            return b"frozen 1" in events.read(256)

        return _until(frozen, deadline)


def _freeze_legacy(folder: Path, deadline: float) -> bool:
    state = folder / "freezer.state"
    _write(state, "FROZEN")

    def frozen() -> bool:
        return state.read_bytes().strip() == b"FROZEN"

    return _until(frozen, deadline)


def _until(reached: Callable[[], bool], deadline: float) -> bool:
    """Ask again and again: the kernel's own notice comes up to 10 ms late."""
    while not reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(_ASK_S)
    return True


def _write(file: Path, word: str) -> None:
    with file.open("w") as control:
        control.write(word)
