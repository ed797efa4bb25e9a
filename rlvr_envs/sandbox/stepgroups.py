"""The processes of one step: whatever its shell started since the step began.

A control group per step would have to be entered and left by the shell, and each
move of a process costs the kernel's wait for all its processors (12 ms after an
idle moment, measured on Linux 6.18). So nothing is moved: what was alive when the
step began is written down, and on a kill, with everything frozen, what is new and
does not descend from an earlier daemon belongs to the step. A process that left
its session or its parent is found all the same: it is new, and init is its parent.

A shell tells of its background jobs that a signal ended, in the order in which it hears
of their end. So the shell stands still until all of them have ended.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.owners import stat_fields

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_ROUNDS = 50
_KILL_S = 5.0
_ENDED = (b"Z", b"X")


class Stoppable(Protocol):
    """What a step needs of its sandbox."""

    def members(self) -> Sequence[int]:
        """Return every pid inside, as this process's namespace has them."""

    def stop(self) -> bool:
        """Stop every process; whether that worked."""

    def resume(self) -> None:
        """Let them go on."""

    @property
    def dies_stopped(self) -> bool:
        """Whether a process that stands still ends when it is killed."""


@dataclass(frozen=True, slots=True)
class _Seen:
    parent: int
    started: int


class BornSince:
    """A step's processes, known by when they were born.

    Keeps the protocol `rlvr_envs.sandbox.base.StepGroup`.

    Args:
        sandbox: Whose processes they are.
        init: Its init's pid; never killed, and nobody's step.
    """

    def __init__(self, sandbox: Stoppable, init: int) -> None:
        self._sandbox = sandbox
        self._init = init
        self._earlier = frozenset(sandbox.members())
        self._began = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_S)
        self._added: set[int] = set()
        self._roots: set[int] = set()

    def add(self, pid: int) -> None:
        """Make a process a member; what it starts from now on is one anyway."""
        self._added.add(pid)
        self._roots.add(pid)

    def release(self, pid: int) -> None:
        """Make a process no member; what it started stays one."""
        self._added.discard(pid)

    def kill(self, *, spare: int = 0, wake: Callable[[], None] | None = None) -> int:
        """Kill every member but ``spare``; return how many were killed.

        Args:
            spare: A pid.
            wake: Called before the spared one goes on, which then finds the others
                ended, where the machine can end what stands still.

        Raises:
            SandboxError: If a member outlives its kill by seconds.
        """
        killed: set[int] = set()
        for number in range(_ROUNDS):
            stopped = self._sandbox.stop()
            try:
                victims = self._members(spare) - killed
                for pid in victims:
                    _kill(pid)
                if stopped and self._sandbox.dies_stopped:
                    _wait(lambda: all(map(_has_ended, victims)))  # noqa: B023 - at once
                if wake is not None and number == 0:
                    wake()
            finally:
                self._sandbox.resume()
            killed |= victims
            if stopped or not victims:
                break
        self._wait_for_end(killed)
        return len(killed)

    def close(self) -> None:
        """Forget the step; its survivors are earlier processes to the next one."""
        self._added.clear()
        self._roots.clear()

    def _members(self, spare: int) -> set[int]:
        seen: dict[int, _Seen] = {}
        for pid in self._sandbox.members():
            try:
                fields = stat_fields(pid)
            except ProcessLookupError:
                continue
            seen[pid] = _Seen(int(fields[1]), int(fields[19]))
        mine = {pid for pid in seen if self._belongs(pid, seen)}
        return (mine | (self._added & seen.keys())) - {spare, self._init}

    def _belongs(self, pid: int, seen: dict[int, _Seen]) -> bool:
        """Walk up: an earlier daemon's child is the daemon's, all else the step's."""
        if pid in self._roots:
            return pid in self._added
        while pid in seen and pid != self._init and pid not in self._roots:
            if self._is_earlier(pid, seen[pid]):
                return False
            pid = seen[pid].parent
        return True

    def _is_earlier(self, pid: int, seen: _Seen) -> bool:
        """A pid that was in use then, and is not a newer process with the same pid."""
        return pid in self._earlier and seen.started <= self._began

    def _wait_for_end(self, pids: set[int]) -> None:
        if not _wait(lambda: pids.isdisjoint(self._sandbox.members())):
            raise SandboxError("Killed processes did not end.")


def _wait(reached: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _KILL_S
    while not reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.0005)
    return True


def _has_ended(pid: int) -> bool:
    try:
        return stat_fields(pid)[0] in _ENDED
    except ProcessLookupError:
        return True


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
