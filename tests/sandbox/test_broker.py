"""Supervisors are started by a small process of their own, as the trainer's children."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvr_envs.errors import SandboxError
from rlvr_envs.records import Places
from rlvr_envs.sandbox import broker
from rlvr_envs.sandbox.broker import Broker, close_brokers, start_supervisor
from rlvr_envs.sandbox.cgroups import Group, Hierarchies
from rlvr_envs.sandbox.launcher import launcher
from rlvr_envs.sandbox.owners import stat_fields
from rlvr_envs.sandbox.supervisor import Supervisor
from rlvr_envs.sandbox.wire import Refused, receive_plain
from tests.processes import eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    """A program of its own, so that the brokers of other tests stay alive."""
    shared = launcher(Places())
    own = tmp_path / "init"
    own.write_bytes(shared.read_bytes())
    own.chmod(0o755)
    yield own
    close_brokers()


@pytest.fixture
def full() -> Iterator[Path]:
    """A control group that lets nobody be born in it."""
    group = Group(Hierarchies.here(), f"full-{os.getpid()}")
    folder = group.legacy.get("pids") or group.unified
    assert folder is not None
    folder.mkdir()
    (folder / "pids.max").write_text("0")
    yield folder
    group.remove()


def _start(program: Path) -> tuple[socket.socket, int]:
    """Start a supervisor; return our end of its channel, and the pid it tells."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far:
        start_supervisor(program, far)
    answer = receive_plain(near)
    assert answer is not None
    return near, int(answer.checked().fields[1])


def _end(near: socket.socket, pid: int) -> None:
    near.close()
    assert os.waitpid(pid, 0)[0] == pid


def _parent(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[1])


def test_a_supervisor_is_our_own_child(program: Path) -> None:
    near, pid = _start(program)

    assert _parent(pid) == os.getpid()
    _end(near, pid)


def test_nothing_of_the_host_stands_in_a_command_line(program: Path) -> None:
    near, pid = _start(program)

    for each in (pid, broker._brokers.get(program).pid):
        assert Path(f"/proc/{each}/cmdline").read_bytes() == b"init\0"
    _end(near, pid)


def test_a_broker_that_was_killed_is_replaced(program: Path) -> None:
    first = broker._brokers.get(program)
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: stat_fields(first.pid)[0] == b"Z")

    near, pid = _start(program)

    assert broker._brokers.get(program) is not first
    _end(near, pid)


def test_where_no_process_can_be_had_the_first_answer_says_so(
    program: Path, full: Path
) -> None:
    (full / "cgroup.procs").write_text(str(broker._brokers.get(program).pid))
    supervisor = Supervisor(program)

    with pytest.raises(Refused, match=r"starting a supervisor.*Remedy: raise the host"):
        _ = supervisor.pid
    assert not supervisor.close()
    close_brokers()


def test_a_supervisor_whose_broker_went_is_gone(program: Path) -> None:
    taken = broker._brokers.get(program)
    os.kill(taken.pid, signal.SIGSTOP)
    supervisor = Supervisor(program)
    os.kill(taken.pid, signal.SIGKILL)

    with pytest.raises(SandboxError, match="ended"):
        _ = supervisor.pid
    assert not supervisor.is_alive()
    assert not supervisor.close()


def test_closing_ends_the_broker_though_a_forked_child_holds_its_channel(
    program: Path,
) -> None:
    ours = Broker(program)
    held = os.dup(ours._channel.fileno())
    try:
        ours.close()
        ours.close()
    finally:
        os.close(held)

    with pytest.raises(ProcessLookupError):
        os.kill(ours.pid, 0)


def test_a_supervisor_outlives_its_broker(program: Path) -> None:
    near, pid = _start(program)
    close_brokers()

    os.kill(pid, 0)
    _end(near, pid)
