"""A server is its process's own, runs as nobody, and ends with its trainer."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from rlvr_envs.errors import (
    MissingRequirement,
    SandboxError,
    SnapshotError,
    WrongArgument,
)
from rlvr_envs.sandbox.postgres import server, sharing
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.naming import is_orphan, owned_name
from rlvr_envs.sandbox.postgres.roles import Access
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.server import SHARED_MEMORY, EmbeddedServer
from rlvr_envs.sandbox.postgres.sharing import Source
from tests.processes import eventually, pids_naming, trainer

SMALL = Seed("CREATE TABLE t AS SELECT 1 AS a;")
LEFT = SHARED_MEMORY / (
    f"rlvr-pg-{Path('/proc/self/ns/pid').stat().st_ino}-{os.getpid()}-1-left"
)
TRAINER = """
import sys
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.naming import owned_name
cluster = Cluster(sys.argv[1]) if sys.argv[1] else Cluster.start()
name = owned_name("e")
cluster.admin.execute(f'CREATE DATABASE "{name}"'.encode())
print(cluster._server.folder if cluster._server else name, flush=True)
sys.stdin.read()
"""


def killed_trainer(dsn: str = "") -> str:
    """Start a trainer, kill it, and return what it printed."""
    with trainer(TRAINER, dsn) as made:
        return made.line


@pytest.fixture(scope="module")
def shared() -> Iterator[Source]:
    """The server that environments of this process share."""
    source = Source()
    LEFT.mkdir(exist_ok=True)
    try:
        sharing.lease(SMALL, Access(), source=source, pool_size=1).close()
    except MissingRequirement as error:
        pytest.skip(str(error))
    yield source
    sharing.close_clusters()


def test_a_killed_trainer_leaves_no_process_and_no_folder(cluster: Cluster) -> None:
    folder = killed_trainer()

    assert folder.startswith(str(SHARED_MEMORY))
    assert eventually(lambda: not Path(folder).exists())
    assert eventually(lambda: not pids_naming(folder))


def test_a_killed_trainers_databases_are_swept_by_the_next(cluster: Cluster) -> None:
    name = killed_trainer(cluster._conninfo)
    assert name in cluster.databases()
    assert is_orphan(name)

    Cluster(cluster._conninfo).close()

    assert name not in cluster.databases()
    assert not [role for role in cluster.roles() if is_orphan(role)]


def test_the_living_are_not_swept(cluster: Cluster) -> None:
    name = owned_name("e")
    cluster.admin.execute(f'CREATE DATABASE "{name}"'.encode())

    Cluster(cluster._conninfo).close()

    assert name in cluster.databases()
    cluster.discard(name)
    cluster.settle()


def test_a_folder_whose_trainer_and_keeper_died_is_swept(tmp_path: Path) -> None:
    pid_namespace = Path("/proc/self/ns/pid").stat().st_ino
    left = tmp_path / f"rlvr-pg-{pid_namespace}-{os.getpid()}-1-abc"
    (left / "data").mkdir(parents=True)
    stranger = tmp_path / "rlvr-pg-other"
    stranger.mkdir()

    assert server.sweep_servers(tmp_path) == (left.name,)
    assert stranger.exists()


def test_the_server_is_no_superuser_of_the_machine(cluster: Cluster) -> None:
    owned = cluster._server
    assert owned is not None
    pid = int((owned.folder / "data/postmaster.pid").read_text().split()[0])

    assert Path(f"/proc/{pid}").stat().st_uid != 0
    assert owned.folder.stat().st_mode & 0o777 == 0o700


def test_it_listens_on_its_socket_alone(cluster: Cluster) -> None:
    row = cluster.admin.execute("SHOW listen_addresses").fetchone()

    assert row == ("",)


def test_a_start_sweeps_what_the_dead_left(shared: Source) -> None:
    assert not LEFT.exists()


@pytest.fixture
def theirs() -> Iterator[Cluster]:
    """One that no other test has sessions in, which the end of its pools ends too."""
    try:
        made = Cluster.start()
    except MissingRequirement as error:
        pytest.skip(str(error))
    with closing(made):
        yield made


def test_a_cluster_that_exists_serves_as_well(theirs: Cluster) -> None:
    source = Source(dsn=theirs._conninfo)

    clone = sharing.lease(SMALL, Access(), source=source, pool_size=1)

    assert clone.open_agent().execute("SELECT a FROM t").fetchone() == (1,)
    assert clone._cluster._server is None
    clone.close()
    roles = set(clone._cluster.roles())
    sharing.close_clusters()
    assert clone.name not in theirs.databases()
    assert clone._cluster.grader in roles - set(theirs.roles())


def test_a_killed_keeper_takes_the_server_with_it(shared: Source) -> None:
    clone = sharing.lease(SMALL, Access(), source=shared)
    owned = clone._cluster._server
    assert owned is not None
    signal.pidfd_send_signal(owned._keeper, signal.SIGKILL)
    assert eventually(lambda: not owned.alive)
    agent = clone.open_agent()

    assert eventually(lambda: agent_is_cut_off(agent))
    with pytest.raises(SandboxError):
        clone.ledger()
    again = sharing.lease(SMALL, Access(), source=shared, pool_size=1)
    assert again.open_agent().execute("SELECT a FROM t").fetchone() == (1,)
    again.close()
    clone.close()


def test_a_crash_of_the_server_costs_its_episodes_and_no_other(
    shared: Source,
) -> None:
    clone = sharing.lease(SMALL, Access(), source=shared, pool_size=1)
    agent = clone.open_agent()
    os.kill(agent.info.backend_pid, signal.SIGKILL)

    assert eventually(lambda: agent_is_cut_off(agent))
    assert eventually(lambda: not clone._cluster.alive)
    with pytest.raises(SandboxError):
        clone.freeze()
    again = sharing.lease(SMALL, Access(), source=shared, pool_size=1)
    assert again.open_agent().execute("SELECT a FROM t").fetchone() == (1,)
    again.close()
    clone.close()


def agent_is_cut_off(agent: psycopg.Connection[tuple[object, ...]]) -> bool:
    try:
        agent.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False


def test_what_is_shared_is_made_once(shared: Source) -> None:
    first = sharing.lease(SMALL, Access(), source=shared)
    second = sharing.lease(SMALL, Access(), source=shared)

    assert first.template is second.template
    first.close()
    second.close()


def test_a_wrong_seed_is_told_at_each_lease(shared: Source) -> None:
    for _ in range(2):
        with pytest.raises(SnapshotError, match="42601"):
            sharing.lease(Seed("SELEC 1"), Access(), source=shared)


def test_a_folder_too_deep_for_a_socket_is_refused(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()

    with pytest.raises(WrongArgument, match=r"too long for a socket.*Remedy: "):
        EmbeddedServer(deep)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", folder]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("mounting a tmpfs is not allowed")
        Path(folder).chmod(0o755)
        yield Path(folder)
        subprocess.run(["umount", folder], check=True)


def test_a_disk_too_small_for_a_server_is_told(
    cluster: Cluster, small_disk: Path
) -> None:
    with pytest.raises(MissingRequirement, match=r"MiB free.*Remedy: free"):
        EmbeddedServer(small_disk)


def test_a_folder_that_the_server_cannot_enter_is_told(cluster: Cluster) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root starts a server as somebody else")
    closed = Path(tempfile.mkdtemp(prefix="rlvr-"))

    with pytest.raises(MissingRequirement, match="unprivileged"):
        EmbeddedServer(closed)

    assert list(closed.iterdir()) == []
    closed.rmdir()
