"""Keeps a tmux pane's terminal open, and ends tmux when its owner has died.

Runs on the host as the pane's only program, by itself: it imports nothing of ours.
It lets go of the terminal, so that a shell inside a sandbox can take it as its own.

Usage: holder.py READY_FIFO OWNER_PID
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import sys
import termios
from contextlib import suppress
from pathlib import Path


def main() -> None:
    """Let go of the terminal, say so, and wait for the end of owner or tmux."""
    ready, owner = Path(sys.argv[1]), int(sys.argv[2])
    tmux = os.pidfd_open(os.getppid())
    watch = select.poll()
    for pidfd in (tmux, os.pidfd_open(owner)):
        watch.register(pidfd, select.POLLIN)
    # Giving the terminal up hangs up its foreground group, which is this process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    fcntl.ioctl(0, termios.TIOCNOTTY)
    ready.write_bytes(b"1")
    watch.poll()
    shutil.rmtree(ready.parent, ignore_errors=True)
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(tmux, signal.SIGKILL)


if __name__ == "__main__":
    main()
