"""The end of a sandbox's processes: stop, list, kill, count until none is left."""

from __future__ import annotations

import select
import signal
from collections.abc import Collection

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.cgroups import Group
from rlvr_envs.sandbox.freezing import (
    census,
    freeze,
    kill_all,
    thaw,
    wait_until_empty,
)
from rlvr_envs.state import Census

KILL_S = 15.0
"""How long the kernel may take to end a killed process namespace."""


def end_and_count(group: Group, init: int, own_pids: Collection[int]) -> Census:
    """Kill every process of a sandbox and return what was found.

    Killing pid 1 ends its namespace: nobody inside can start another process, and
    the pidfd of init tells of its end only after that of all the others.

    Args:
        group: The sandbox's.
        init: A pidfd of its init.
        own_pids: Pids that the harness started, which are no survivors.

    Raises:
        SandboxError: If a process outlives the deadline.
    """
    try:
        freeze(group)
    except SandboxError:
        stopped = False
    else:
        stopped = True
    survivors = census(group, except_pids=own_pids)
    _kill(init)
    if stopped and group.unified is None:
        thaw(group)
    if not _ended(init):
        kill_all(group)
    remaining = wait_until_empty(group, timeout_s=KILL_S)
    if remaining or not _ended(init):
        raise SandboxError(f"{remaining} processes outlived the end of their sandbox.")
    return Census(survivors, remaining)


def _kill(init: int) -> None:
    try:
        signal.pidfd_send_signal(init, signal.SIGKILL)
    except ProcessLookupError:
        return


def _ended(init: int) -> bool:
    poll = select.poll()
    poll.register(init, select.POLLIN)
    return bool(poll.poll(KILL_S * 1000))
