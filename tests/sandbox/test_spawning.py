"""The spawn server in somebody else's pid 1's place, and the host's end of it."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlvr_envs.errors import MissingRequirement, SandboxError
from rlvr_envs.records import Places
from rlvr_envs.sandbox.conformance_kit import ENVIRONMENT, collecting
from rlvr_envs.sandbox.launcher import launcher, start_launcher
from rlvr_envs.sandbox.spawning import InitChannel

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return launcher(Places())
    except MissingRequirement as error:
        pytest.skip(str(error))


@pytest.fixture
def server(program: Path, tmp_path: Path) -> Iterator[tuple[InitChannel, int]]:
    """A spawn server that dialled in, as one in a container does, and its pid."""
    path = str(tmp_path / "init")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(path)
        door.listen(1)
        door.settimeout(20)
        pid = start_launcher(program, door, "--serve", path)
        channel, _ = door.accept()
    handle = os.pidfd_open(pid)
    init = InitChannel(channel, handle)
    yield init, pid
    init.close()
    assert os.waitpid(pid, 0)[1] == 0, "the end of the channel is its end"
    os.close(handle)


def test_it_spawns_and_reports(server: tuple[InitChannel, int]) -> None:
    init, _ = server
    with collecting() as (fds, text):
        process = init.spawn(
            ["sh", "-c", "id -u; exit 9"], fds=fds, env=ENVIRONMENT, user=1000
        )

        assert process.wait(20) == 9
        assert text() == "1000\n"
        assert process.pid > 0


def test_what_it_cannot_do_is_an_os_error(server: tuple[InitChannel, int]) -> None:
    init, _ = server
    with collecting() as (fds, _), pytest.raises(FileNotFoundError, match="executing"):
        init.spawn(["no-such-program"], fds=fds, env=ENVIRONMENT)


def test_it_counts_its_own(server: tuple[InitChannel, int]) -> None:
    init, _ = server
    with collecting() as (fds, _):
        process = init.spawn(["sleep", "100"], fds=fds, env=ENVIRONMENT)

        assert init.own_pids() == {process.pid}
        process.kill()
        assert process.wait(20) == 137
        assert init.own_pids() == frozenset()


def test_every_waiter_is_told(server: tuple[InitChannel, int]) -> None:
    init, _ = server
    with collecting() as (fds, _), ThreadPoolExecutor(8) as pool:
        process = init.spawn(["sleep", "100"], fds=fds, env=ENVIRONMENT)
        waits = [pool.submit(process.wait, 60) for _ in range(8)]
        began = time.monotonic()
        process.kill()

        assert [wait.result(60) for wait in waits] == [137] * 8
        assert time.monotonic() - began < 20


def test_a_process_that_is_given_up_wakes_who_waits(
    server: tuple[InitChannel, int],
) -> None:
    init, _ = server
    with collecting() as (fds, _), ThreadPoolExecutor(1) as pool:
        process = init.spawn(["sleep", "100"], fds=fds, env=ENVIRONMENT)
        wait = pool.submit(process.wait, 30)
        deadline = time.monotonic() + 10
        while not process._waiters and time.monotonic() < deadline:
            time.sleep(0.001)
        began = time.monotonic()
        process.abandon()

        assert wait.result(60) == 137
        assert time.monotonic() - began < 20
        os.kill(process.pid, signal.SIGKILL)


def test_a_program_must_be_named(server: tuple[InitChannel, int]) -> None:
    init, _ = server
    with pytest.raises(ValueError, match="program"):
        init.spawn([], fds=(), env={})


def test_a_closed_channel_is_the_worlds_fault(server: tuple[InitChannel, int]) -> None:
    init, _ = server
    init.close()

    with collecting() as (fds, _), pytest.raises(SandboxError, match="gone"):
        init.spawn(["true"], fds=fds, env=ENVIRONMENT)
