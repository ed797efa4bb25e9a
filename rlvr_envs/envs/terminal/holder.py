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
from pathlib import Path


def main() -> None:
    """Let go of the terminal, say so, and wait for the owner's end."""
    ready, owner = Path(sys.argv[1]), int(sys.argv[2])
    watch = select.poll()
    watch.register(os.pidfd_open(owner), select.POLLIN)
    # Giving the terminal up hangs up its foreground group, which is this process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    fcntl.ioctl(0, termios.TIOCNOTTY)
    ready.write_bytes(b"1")
    watch.poll()
    shutil.rmtree(ready.parent, ignore_errors=True)
    os.kill(os.getppid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
