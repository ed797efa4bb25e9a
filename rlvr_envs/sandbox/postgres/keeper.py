"""The process that keeps one database server, and ends it with its trainer.

A bare interpreter runs this file as a script: it imports nothing of the package.
Its standard input is the trainer's lifeline, its standard output what went wrong.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_STOP_S = 10.0
_REMOVE_TRIES = 50


def main() -> int:
    """Keep a server as the order in the first argument says; return the status."""
    order = json.loads(sys.argv[1])
    trainer = os.pidfd_open(order["trainer"])
    if os.getppid() != order["trainer"]:
        return 1
    os.setsid()
    os.umask(0o077)
    try:
        return _keep(order, trainer)
    except (OSError, subprocess.SubprocessError) as error:
        _tell(f"{error}: permission denied to user {order['user']}?")
        return 1
    finally:
        _remove(Path(order["folder"]))


def _keep(order: dict[str, Any], trainer: int) -> int:
    folder = Path(order["folder"])
    for name in ("initdb", "postgres"):
        with (folder / f"{name}.log").open("wb") as log:
            program = _spawn(name, order, log.fileno())
        status = _status(program, trainer)
        if status is None:
            return 0
        if status != 0:
            text = (folder / f"{name}.log").read_text("utf-8", "replace")
            _tell(f"{name} ended with {status}: {text[-1500:]}")
            return 1
    return 0


def _tell(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _spawn(name: str, order: dict[str, Any], log: int) -> subprocess.Popen[bytes]:
    user = order["user"] if os.geteuid() == 0 else None
    more = order.get("preload", {}) if name == "postgres" else {}

    def become() -> None:
        if user is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        # After the change of user, which would clear it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)
        os.chdir(order["folder"])

    return subprocess.Popen(
        order[name],
        env=order["env"] | more,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        preexec_fn=become,
    )


def _status(program: subprocess.Popen[bytes], trainer: int) -> int | None:
    """Return how a program ended, or ``None`` if the trainer went first."""
    child = os.pidfd_open(program.pid)
    poll = select.poll()
    for descriptor in (0, trainer, child):
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
    ready = {descriptor for descriptor, _ in poll.poll()}
    os.close(child)
    if child in ready:
        return program.wait()
    _stop(program)
    return None


def _stop(program: subprocess.Popen[bytes]) -> None:
    # SIGQUIT is the server's immediate shutdown: its data is thrown away anyway.
    program.send_signal(signal.SIGQUIT)
    try:
        program.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def _remove(folder: Path) -> None:
    for _ in range(_REMOVE_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        select.select([], [], [], 0.1)


if __name__ == "__main__":
    sys.exit(main())
