"""A step's processes are those that were born since, and not a daemon's."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rlvr_envs.sandbox.owners import stat_fields
from rlvr_envs.sandbox.stepgroups import BornSince

Tell = Callable[[str], None]


class Descendants:
    """Stands in for a sandbox: some processes and all that they started."""

    def __init__(self, *roots: int) -> None:
        self.roots = set(roots)
        self.stops = 0

    def members(self) -> list[int]:
        parents = {}
        for folder in Path("/proc").iterdir():
            name = folder.name
            if name.isdigit():
                try:
                    fields = stat_fields(int(name))
                except ProcessLookupError:
                    continue
                if fields[0] != b"Z":
                    parents[int(name)] = int(fields[1])
        return [pid for pid in parents if self._ours(pid, parents)]

    def _ours(self, pid: int, parents: dict[int, int]) -> bool:
        while pid in parents and pid not in self.roots:
            pid = parents[pid]
        return pid in self.roots

    dies_stopped = True

    def stop(self) -> bool:
        self.stops += 1
        return True

    def resume(self) -> None:
        self.stops -= 1


@contextmanager
def shell() -> Iterator[tuple[int, Tell]]:
    with subprocess.Popen(["bash"], stdin=subprocess.PIPE, text=True) as process:
        pipe = process.stdin
        assert pipe is not None

        def tell(line: str) -> None:
            assert pipe is not None
            pipe.write(line + "\n")
            pipe.flush()

        yield process.pid, tell
        process.kill()


def wait_for(sandbox: Descendants, count: int) -> None:
    deadline = time.monotonic() + 10
    while len(sandbox.members()) != count:
        assert time.monotonic() < deadline, f"{sandbox.members()}"
        time.sleep(0.005)


def test_what_a_member_starts_is_the_steps() -> None:
    with shell() as (pid, tell):
        sandbox = Descendants(pid)
        tell("sleep 50 &")
        wait_for(sandbox, 2)
        group = BornSince(sandbox, init=1)
        group.add(pid)
        tell("sleep 60 & sh -c 'sleep 70; true'")
        wait_for(sandbox, 5)

        killed = group.kill(spare=pid)

        assert killed == 3
        assert len(sandbox.members()) == 2, "the shell, and the earlier sleep"
        assert sandbox.stops == 0, "it was let go on"


def test_an_earlier_daemons_new_child_is_the_daemons() -> None:
    with shell() as (pid, tell), shell() as (daemon, tell_daemon):
        sandbox = Descendants(pid, daemon)
        group = BornSince(sandbox, init=1)
        group.add(pid)
        tell_daemon("sleep 50 &")
        tell("sleep 60 &")
        wait_for(sandbox, 4)

        killed = group.kill(spare=pid)

        assert killed == 1
        wait_for(sandbox, 3)


def test_a_released_shell_is_not_killed_but_its_children_are() -> None:
    with shell() as (pid, tell):
        sandbox = Descendants(pid)
        group = BornSince(sandbox, init=1)
        group.add(pid)
        tell("sleep 60 &")
        wait_for(sandbox, 2)
        group.release(pid)

        assert group.kill() == 1
        wait_for(sandbox, 1)


def test_the_spared_one_goes_on_when_all_others_have_ended() -> None:
    with shell() as (pid, tell):
        sandbox = Descendants(pid)
        group = BornSince(sandbox, init=1)
        group.add(pid)
        tell("sleep 60 & sleep 70 &")
        wait_for(sandbox, 3)
        seen = []

        group.kill(spare=pid, wake=lambda: seen.append(sandbox.members()))

        assert seen == [[pid]]
        assert sandbox.stops == 0


def test_init_is_nobodys_step() -> None:
    with shell() as (pid, _):
        sandbox = Descendants(pid)
        group = BornSince(sandbox, init=pid)
        group.add(pid)

        assert group.kill() == 0
