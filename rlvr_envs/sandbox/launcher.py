"""The launcher program: compiled from our C source on first use, and started."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from rlvr_envs.errors import MissingRequirement, SandboxError, boundary, place
from rlvr_envs.records import Places

_SOURCES = Path(__file__).parent
_MAIN = "launcher.c"
_FLAGS = ("-static", "-O2", "-w")
_COMPILE_S = 120
_REMEDY = "apt-get install gcc libc6-dev (a C compiler and a static C library)."


def launcher(places: Places) -> Path:
    """Return the compiled launcher, compiling it if the store has none.

    Two processes may do so at once: each compiles aside, and the last one's
    rename replaces an equal file.

    Raises:
        MissingRequirement: If there is no working C compiler.
        WrongArgument: If the store cannot be written.
        SandboxError: If the compiler fails.
    """
    target = places.store / "launcher" / source_digest()
    if target.exists():
        return target
    with place(f"The store {places.store}"):
        target.parent.mkdir(parents=True, exist_ok=True)
    with boundary(SandboxError, "compiling the launcher"):
        _compile(target)
    return target


def source_digest() -> str:
    """Return the SHA-256 of the launcher's sources, in hexadecimal."""
    total = hashlib.sha256()
    for source in sorted(_SOURCES.glob("launcher*.c")):
        total.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return total.hexdigest()


def _compile(target: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise MissingRequirement(
            "The sandbox launcher must be compiled, and there is no C compiler.",
            remedy=_REMEDY,
        )
    aside, name = tempfile.mkstemp(prefix="compiling-", dir=target.parent)
    os.close(aside)
    try:
        done = subprocess.run(
            [compiler, *_FLAGS, "-o", name, str(_SOURCES / _MAIN)],
            capture_output=True,
            timeout=_COMPILE_S,
            check=False,
        )
        if done.returncode != 0:
            raise MissingRequirement(
                f"The sandbox launcher does not compile: {done.stderr.decode()[:500]}.",
                remedy=_REMEDY,
            )
        Path(name).chmod(0o755)
        Path(name).rename(target)
    finally:
        Path(name).unlink(missing_ok=True)


def start_launcher(program: Path, channel: socket.socket, *argv: str) -> int:
    """Start the launcher with a socket as its descriptor 0; return its pid.

    Never forks this process: its memory may be large, and it may have threads.

    Args:
        program: As `launcher` returned it.
        channel: Stays the caller's.
        argv: Arguments that say what it shall be.

    Raises:
        SandboxError: If it cannot be started.
    """
    try:
        return os.posix_spawn(
            program,
            ["init", *argv],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, channel.fileno(), 0),
                (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
            ],
            setsigmask=[],
            setsigdef=[signal.SIGPIPE],
        )
    except OSError as error:
        raise SandboxError(f"The launcher cannot be started: {error}.") from error
