"""How a process becomes a candidate: another user, with ceilings of its own."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from pathlib import Path

WORK = Path("/tmp/work")  # noqa: S108 (a sandbox of its own)
"""Scratch folders of tests and candidates."""

REAP_S = 5.0

USER = 64_000
"""Uid and gid of submitted code; it owns nothing in any image."""

CEILINGS = (
    (resource.RLIMIT_NPROC, 96),
    (resource.RLIMIT_DATA, 320 << 20),
    (resource.RLIMIT_FSIZE, 64 << 20),
    (resource.RLIMIT_NOFILE, 1024),
    (resource.RLIMIT_CORE, 0),
)
"""Each candidate process's; below the sandbox's, so that the examiner outlives it."""


def limit() -> None:
    """Lower this process's ceilings, and let the kernel kill it first."""
    for kind, value in CEILINGS:
        _soft, hard = resource.getrlimit(kind)
        held = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (held, held))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("900")


def become() -> None:
    """Give up every right; there is no way back."""
    limit()
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    os.umask(0o022)


def reap() -> None:
    """Kill every process of the candidate's user, and wait for their ends.

    Raises:
        RuntimeError: If they outlived all attempts.
    """
    deadline = time.monotonic() + REAP_S
    while time.monotonic() < deadline:
        child = os.fork()
        if child == 0:
            _kill_all()
        os.waitpid(child, 0)
        collect()
        if not alive():
            return
    raise RuntimeError("candidates cannot be killed")


def collect() -> None:
    """Take leave of children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def alive() -> bool:
    """Return whether a process of the candidate's user still runs."""
    names = os.listdir("/proc")  # noqa: PTH208 (names, as they are)
    return any(name.isdigit() and _is_candidate(name) for name in names)


def _is_candidate(pid: str) -> bool:
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return False
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    dead = fields.get("State", "Z")[0] in "ZX"
    return not dead and fields.get("Uid", "").split()[0] == str(USER)


def _kill_all() -> None:
    """Become the candidate's user and kill all that it may signal: all its own."""
    try:
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
        os.kill(-1, 9)
    finally:
        os._exit(0)
