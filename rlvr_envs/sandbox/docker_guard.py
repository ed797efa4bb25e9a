"""Wait for the end of a process, then remove what it left in the Docker daemon."""

from __future__ import annotations

import sys
from pathlib import Path

from rlvr_envs.records import Places
from rlvr_envs.sandbox.docker_daemon import Daemon, sweep


def main(url: str, store: str, run: str, owner: str) -> None:
    """Read until the other end of standard input closes, then sweep."""
    sys.stdin.buffer.read()
    sweep(Daemon(url), Places(Path(store), Path(run)), owner=owner)


if __name__ == "__main__":
    main(*sys.argv[1:])
