"""The zygote: pytest imported once, forked for each examiner and each candidate.

It never reads a test, an expected value or a nonce: an examiner gets them over a
pipe of its own, so that a candidate, which is forked from here, cannot have them.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from rlvr_envs.sandbox.inside import candidate, confine, job, wire

CONTROL_FD = 3
FIXTURES = Path("/verifier")
SUBMISSION = Path("/submission")
SHARED = ("/tmp", "/var/tmp", "/run/lock", "/dev/shm", "/dev/mqueue")  # noqa: S108
"""Folders that candidates can write to; emptied after each job."""

GRACE_S = 0.3
"""How long a candidate that closed its pipe is given to end."""


def main() -> None:
    """Serve jobs until the host closes the control socket."""
    control = socket.socket(fileno=CONTROL_FD)
    _prepare()
    template = job.prepare(FIXTURES)
    baseline = _baseline()
    gc.freeze()
    control.send(b"ready")
    while True:
        data, fds = wire.receive_with(control)
        if not data:
            return
        _job(control, template, fds)
        _clean(baseline)
        control.send(_report())


def _prepare() -> None:
    for folder in (FIXTURES, SUBMISSION):
        folder.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):
        FIXTURES.chmod(0o700)
    with contextlib.suppress(OSError), Path("/etc/passwd").open("a") as users:
        users.write(
            f"candidate:x:{confine.USER}:{confine.USER}::{confine.WORK}:/bin/sh\n"
        )
    for folder in _world_writable():
        folder.chmod(folder.stat().st_mode & ~0o002)


def _world_writable() -> list[Path]:
    """Return what everybody can write to beside the shared folders."""
    found = []
    for top in ("/etc", "/home", "/opt", "/root", "/run", "/srv", "/usr", "/var"):
        for folder, _names, _files in os.walk(top):
            with contextlib.suppress(OSError):
                if folder not in SHARED and os.lstat(folder).st_mode & 0o002:
                    found.append(Path(folder))
    return found


def _baseline() -> dict[str, frozenset[str]]:
    return {
        folder: frozenset(_names(folder)) for folder in SHARED if Path(folder).is_dir()
    }


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 (names, as they are)
    except OSError:
        return []


def _job(control: socket.socket, template: Any, fds: list[int]) -> None:
    payload, verdict = fds
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    examiner = os.fork()
    if examiner == 0:
        control.close()
        mine.close()
        _leave(lambda: job.run(template, payload, verdict, theirs))
    for fd in fds:
        os.close(fd)
    theirs.close()
    with mine:
        _attend(control, mine)
    os.waitpid(examiner, 0)


def _leave(act: Any) -> None:
    """Do the one thing this fork is for, and end without its parent's exits."""
    status = 1
    try:
        act()
        status = 0
    finally:
        os._exit(status)


def _attend(control: socket.socket, mine: socket.socket) -> None:
    """Do what an examiner asks for until it ends."""
    while True:
        data, fds = wire.receive_with(mine)
        if not data:
            return
        request = json.loads(data)
        if request["do"] == "fork":
            mine.send(json.dumps(_fork(control, mine, request, fds)).encode())
        elif request["do"] == "status":
            mine.send(json.dumps(_status(request["pid"])).encode())
        elif request["do"] == "reap":
            confine.reap()
            mine.send(b"{}")


def _fork(
    control: socket.socket, mine: socket.socket, request: Any, fds: list[int]
) -> dict[str, int]:
    pid = os.fork()
    if pid == 0:
        control.close()
        mine.close()
        _leave(lambda: _candidate(request["import_from"], *fds))
    for fd in fds:
        os.close(fd)
    return {"pid": pid}


def _candidate(import_from: str, requests: int, answers: int) -> None:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    confine.become()
    with contextlib.suppress(OSError):
        os.chdir(import_from)
    candidate.serve(requests, answers, import_from)


def _status(pid: int) -> dict[str, int | None]:
    """Return a candidate's exit status, negative if a signal ended it.

    None if it lives on, a moment after it closed its pipe.
    """
    deadline = time.monotonic() + GRACE_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return {"status": os.waitstatus_to_exitcode(status)}
            time.sleep(0.001)
    return {"status": None}


def _clean(baseline: dict[str, frozenset[str]]) -> None:
    """Remove everything of the last job."""
    confine.reap()
    job.unlink(FIXTURES)
    for folder in (FIXTURES, SUBMISSION):
        _empty(str(folder), frozenset())
    for name, kept in baseline.items():
        _empty(name, kept)


def _empty(folder: str, kept: frozenset[str]) -> None:
    for name in _names(folder):
        path = os.path.join(folder, name)  # noqa: PTH118 (any bytes)
        if name in kept:
            continue
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112,PTH114
            shutil.rmtree(path)
        else:
            os.unlink(path)  # noqa: PTH108


def _report() -> bytes:
    """Return ``clean``, or ``soiled`` where something outlived the job."""
    for kind in ("shm", "sem", "msg"):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()
            if len(lines) > 1:
                return b"soiled"
    return b"clean"


def start() -> None:
    """Run `main`; the parent's death or a broken promise ends the process."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    sys.dont_write_bytecode = True
    main()
