"""A Docker daemon of the tests' own: no bridge, no firewall rules, its own folders."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.sandbox.docker_daemon import Daemon

START_S = 60.0
STOP_S = 30.0


@contextmanager
def dockerd(folder: Path) -> Iterator[Daemon]:
    """Start a daemon below a folder, and stop it; skips where there is none.

    Args:
        folder: Short enough for a socket's address, on a disk that overlayfs can use.
    """
    program = shutil.which("dockerd")
    if program is None:
        pytest.skip("dockerd is not installed (apt-get install docker.io)")
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [
            program,
            f"--data-root={folder}/data",
            f"--exec-root={folder}/exec",
            f"--pidfile={folder}/pid",
            f"--host=unix://{folder}/sock",
            "--storage-driver=overlay2",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd="/",
    )
    daemon = Daemon(f"unix://{folder}/sock")
    try:
        _wait_until_it_answers(daemon, process, folder)
        yield daemon
    finally:
        daemon.forget()
        process.terminate()
        process.wait(STOP_S)
        log.close()


def _wait_until_it_answers(
    daemon: Daemon, process: subprocess.Popen[bytes], folder: Path
) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            daemon.check()
        except MissingRequirement as error:
            if process.poll() is not None:
                last = (folder / "log").read_text().splitlines()[-1:]
                pytest.skip(f"dockerd does not run here: {last}")
            if time.monotonic() > deadline:
                pytest.skip(f"dockerd does not answer: {error}")
            time.sleep(0.05)
        else:
            return
