"""Processes and folders are their process's own, and gone with it."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.pooling import KEPT_SEEDS
from rlvr_envs.sandbox.sqlite import sharing
from rlvr_envs.sandbox.sqlite.clone import Access, Bounds
from rlvr_envs.sandbox.sqlite.seeds import Seed
from rlvr_envs.sandbox.sqlite.shelf import SHARED_MEMORY, Shelf, sweep
from tests.processes import eventually, pids_naming, trainer
from tests.sqlite_shop import SHOP, MakeClone, rows

TRAINER = """
import os, sys, threading
from rlvr_envs.sandbox.sqlite.clone import Access, Bounds, make_clone
from rlvr_envs.sandbox.sqlite.seeds import Seed
from rlvr_envs.sandbox.sqlite.shelf import Shelf
shelf = Shelf()
clone = make_clone(shelf, shelf.template(Seed("CREATE TABLE t (a)")), Access())
busy = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT max(i) FROM n"
threading.Thread(target=clone.run, args=(busy, Bounds(600.0)), daemon=True).start()
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
print(shelf.folder, flush=True)
sys.stdin.read()
"""


def test_a_killed_trainer_leaves_no_process_and_no_folder() -> None:
    """Not even where what it forked holds on to its descriptors."""
    with trainer(TRAINER) as made:
        folder = made.line
        assert len(pids_naming(folder)) == 2

        made.kill()

        assert eventually(lambda: not Path(folder).exists(), within_s=5.0)
        assert eventually(lambda: not pids_naming(folder), within_s=5.0)


def test_a_folder_whose_processes_died_is_swept(tmp_path: Path) -> None:
    pid_namespace = Path("/proc/self/ns/pid").stat().st_ino
    left = tmp_path / f"rlvr-sqlite-{pid_namespace}-{os.getpid()}-1-abc"
    left.mkdir()
    stranger = tmp_path / "rlvr-sqlite-other"
    stranger.mkdir()

    assert sweep(tmp_path) == (left.name,)
    assert stranger.exists()


def test_a_closed_shelf_leaves_nothing(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    shelf = Shelf(SHARED_MEMORY)
    folder = str(shelf.folder)

    shelf.close()
    shelf.close()

    assert not Path(folder).exists()
    assert not pids_naming(folder)


def test_a_closed_clone_leaves_no_process_and_no_file(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "DELETE FROM notes")
    clone.look()
    path = clone._path

    clone.close()
    clone.close()

    assert not path.parent.exists()


def test_workers_have_no_power_over_the_machine(clone_of: MakeClone) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root starts workers as somebody else")
    clone = clone_of()

    assert clone._path.stat().st_uid != 0
    assert clone.template.path.stat().st_uid == 0
    assert clone.template.path.stat().st_mode & 0o222 == 0


def test_a_crashed_worker_costs_its_session_and_no_more(clone_of: MakeClone) -> None:
    clone = clone_of()
    rows(clone, "DELETE FROM notes")
    rows(clone, "BEGIN")
    rows(clone, "DELETE FROM orders")
    agent = clone._agent
    assert agent is not None
    signal.pidfd_send_signal(agent._process, signal.SIGKILL)

    answer = clone.run("SELECT 1", Bounds())

    assert answer == {"lost": True, "timed_out": False}
    assert rows(clone, "SELECT count(*) FROM orders") == [["20"]]
    assert rows(clone, "SELECT count(*) FROM notes") == [["0"]]
    clone.freeze()


def test_a_dead_nursery_is_replaced() -> None:
    first = sharing.lease(SHOP, Access(), pool_size=1)
    nursery = first._shelf.nursery
    signal.pidfd_send_signal(nursery._process, signal.SIGKILL)
    assert eventually(lambda: not nursery.alive)
    with pytest.raises(SandboxError):
        first.look()

    again = sharing.lease(SHOP, Access(), pool_size=1)

    assert rows(again, "SELECT count(*) FROM orders") == [["20"]]
    again.close()
    first.close()
    sharing.close_shelves()


def test_sixteen_at_once() -> None:
    with ThreadPoolExecutor(16) as threads:
        clones = list(threads.map(lambda _: sharing.lease(SHOP, Access()), range(16)))

    assert len({clone._path for clone in clones}) == 16
    for clone in clones:
        assert rows(clone, "SELECT count(*) FROM orders") == [["20"]]
        clone.close()
    sharing.close_shelves()


def test_fifty_cycles_leave_no_descriptor() -> None:
    first = sharing.lease(SHOP, Access(), pool_size=1)
    first.close()
    counts = []

    for _ in range(50):
        clone = sharing.lease(SHOP, Access(), pool_size=1)
        rows(clone, "DELETE FROM orders")
        clone.freeze()
        clone.diff()
        clone.close()
        counts.append(len(list(Path("/proc/self/fd").iterdir())))

    assert max(counts[25:]) <= max(counts[:25])
    assert len(list(first._shelf.folder.glob("e*"))) <= 2
    sharing.close_shelves()


def test_a_seed_is_made_once() -> None:
    seed = Seed("CREATE TABLE t (a)")
    first, second = (sharing.lease(seed, Access()) for _ in range(2))

    assert first.template is second.template
    first.close()
    second.close()
    sharing.close_shelves()


def test_seeds_that_nobody_plays_are_let_go() -> None:
    seeds = [Seed(f"CREATE TABLE t{n} (a)") for n in range(KEPT_SEEDS + 3)]
    played = sharing.lease(seeds[0], Access(), pool_size=1)

    for seed in seeds[1:]:
        sharing.lease(seed, Access(), pool_size=1).close()

    shelf = played._shelf
    assert len(list(shelf.folder.glob("*.db"))) == KEPT_SEEDS
    assert played.look().empty
    again = sharing.lease(seeds[1], Access(), pool_size=1)
    assert rows(again, "SELECT count(*) FROM t1") == [["0"]]
    for clone in (again, played):
        clone.close()
    sharing.close_shelves()
