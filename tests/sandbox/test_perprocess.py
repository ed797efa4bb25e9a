"""What a process makes once is made anew by a forked child, and by nobody else."""

from __future__ import annotations

import subprocess
import sys

from rlvr_envs.sandbox.perprocess import PerProcess

FORKED = """
import os, signal, threading
from rlvr_envs.sandbox.perprocess import PerProcess

class Thing:
    def __init__(self, key):
        self.key, self.pid = key, os.getpid()
        if key == "slow":
            making.set()
            parent_goes_on.wait()
    def close(self):
        print("closed by its own" if self.pid == os.getpid() else "closed by a child")

making, parent_goes_on = threading.Event(), threading.Event()
things = PerProcess(Thing)
ours = things.get("quick")
threading.Thread(target=things.get, args=("slow",), daemon=True).start()
making.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    theirs = things.get("quick")
    print("another" if theirs is not ours and things.mine() == [theirs] else "the same")
    things.close()
    os._exit(print(flush=True) or 0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
parent_goes_on.set()
"""


class Thing:
    """Knows its key, and whether it can be used."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.alive = True
        self.closed = 0

    def close(self) -> None:
        self.alive = False
        self.closed += 1


def living(thing: Thing) -> bool:
    return thing.alive


def test_each_key_has_one_thing() -> None:
    things = PerProcess(Thing)

    first, other = things.get("a"), things.get("b")

    assert things.get("a") is first
    assert [thing.key for thing in things.mine()] == ["a", "b"]
    assert other is not first


def test_what_died_is_closed_and_replaced() -> None:
    things = PerProcess(Thing, alive=living)
    first = things.get("a")
    first.alive = False

    second = things.get("a")

    assert second is not first
    assert (first.closed, second.closed) == (1, 0)
    assert things.mine() == [second]


def test_closing_closes_all_and_the_next_is_another() -> None:
    things = PerProcess(Thing)
    first = things.get("a")

    things.close()
    things.close()

    assert first.closed == 1
    assert things.mine() == []
    assert things.get("a") is not first


def test_a_forked_child_makes_its_own_though_a_thread_held_the_lock() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split("\n") == ["another", "closed by its own", "", "0", ""]
