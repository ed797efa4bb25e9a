"""The process that forks workers: as small as can be, and gone with its trainer.

It opens no database itself. Asked over a socket, it forks, hands the channel that
came with the question to the child, and sends back a descriptor of the child.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import select
import shutil
import signal
import socket
import sys

from rlvr_envs.sandbox.sqlite.inside.serving import serve

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_FILE_BYTES = 4 << 30
_MEMORY_BYTES = 4 << 30
_QUESTION_BYTES = 16


def main() -> None:
    """Fork as asked until the trainer closes its end or dies; remove the folder.

    Arguments: the user of the workers (-1 for the same), the folder, the package's,
    the trainer's process id. What the trainer forked may hold its end open.
    """
    user, folder, trainer = int(sys.argv[1]), sys.argv[2], int(sys.argv[4])
    libc = ctypes.CDLL(None)
    control = socket.socket(fileno=0)
    lives = os.pidfd_open(trainer)
    if os.getppid() != trainer:
        return
    os.setsid()
    os.umask(0o077)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    control.send(b"ready")
    while _is_asked(control, lives):
        question, descriptors, _, _ = socket.recv_fds(control, _QUESTION_BYTES, 1)
        if not question:
            break
        _fork(control, (descriptors[0], lives), libc, user)
    shutil.rmtree(folder, ignore_errors=True)


def _is_asked(control: socket.socket, lives: int) -> bool:
    poll = select.poll()
    for descriptor in (control.fileno(), lives):
        poll.register(descriptor, select.POLLIN)
    return lives not in {descriptor for descriptor, _ in poll.poll()}


def _fork(
    control: socket.socket, held: tuple[int, int], libc: ctypes.CDLL, user: int
) -> None:
    channel, lives = held
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            control.close()
            os.close(lives)
            _confine(libc, user)
            if os.getppid() == parent:
                serve(socket.socket(fileno=channel))
            status = 0
        finally:
            os._exit(status)
    os.close(channel)
    try:
        child = os.pidfd_open(pid)
    except ProcessLookupError:
        control.send(b"gone")
        return
    socket.send_fds(control, [b"here"], [child])
    os.close(child)


def _confine(libc: ctypes.CDLL, user: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    null = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if user >= 0:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    # After the change of user, which would clear it.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
