"""What a figure is compared with, in the same run: bare system calls, bare tools."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from rlvr_envs.errors import MissingRequirement

_AGAIN = "run the benchmark again"
SOURCE = Path(__file__).parents[3] / "benchmarks" / "floor.c"
_CONTROLLERS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup/memory"))


class SyscallFloor:
    """A sandbox built, entered and removed by bare system calls in a C loop.

    Args:
        lower: Base root of the overlay.

    Raises:
        MissingRequirement: If the source, a compiler or a privilege is missing.
    """

    def __init__(self, lower: Path) -> None:
        self._stack = ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        program = _compiled(folder)
        (folder / "work").mkdir()
        groups = [path for path in _CONTROLLERS if path.is_dir()]
        argv = [str(program), str(lower), str(folder / "work"), *map(str, groups)]
        self._loop = self._stack.enter_context(
            subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._loop.stdin is not None:
            self._loop.stdin.close()
        self._stack.close()

    def once(self) -> float:
        """Return the milliseconds of one sandbox, from nothing to nothing."""
        stdin, stdout, stderr = self._loop.stdin, self._loop.stdout, self._loop.stderr
        if stdin is None or stdout is None or stderr is None:
            raise MissingRequirement("The floor has no pipes.", remedy=_AGAIN)
        try:
            stdin.write(b"x")
            line = stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise MissingRequirement(
                f"The floor stopped: {stderr.read().decode().strip()}.",
                remedy="run as root on a kernel with user namespaces and overlayfs",
            )
        return int(line) / 1e6


def _compiled(folder: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or not SOURCE.is_file():
        raise MissingRequirement(
            "The floor needs a C compiler and benchmarks/floor.c.",
            remedy="apt-get install gcc libc6-dev, and run from a checkout",
        )
    program = folder / "floor"
    argv = [compiler, "-O2", "-static", "-o", str(program), str(SOURCE)]
    done = subprocess.run(  # our own source and the system's compiler
        argv, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode != 0:
        raise MissingRequirement(
            f"floor.c does not compile: {done.stderr.strip()}",
            remedy="apt-get install gcc libc6-dev",
        )
    return program


class BareShell:
    """A bash on a pipe, with nothing around it."""

    def __init__(self) -> None:
        bash = shutil.which("bash")
        if bash is None:
            raise MissingRequirement("There is no bash.", remedy="apt-get install bash")
        self._bash = subprocess.Popen(  # the system's bash
            [bash, "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._bash.kill()
        self._bash.communicate()

    def say(self, command: str) -> bytes:
        """Run a command that prints one line; return the line."""
        if self._bash.stdin is None or self._bash.stdout is None:
            raise MissingRequirement("The bare shell has no pipes.", remedy=_AGAIN)
        self._bash.stdin.write(command.encode() + b"\n")
        return self._bash.stdout.readline()


def docker_once(host: str, image: str, root: Path) -> Callable[[], Any]:
    """Return what starts a container, hears its first word, and removes it.

    Args:
        host: Of the daemon; empty for the client's default.
        image: Imported from ``root`` if the daemon has none of that name.
        root: A base image's tree.

    Raises:
        MissingRequirement: If there is no client, no daemon, or no base image.
    """
    docker = shutil.which("docker")
    if docker is None:
        raise MissingRequirement(
            "There is no docker client.", remedy="apt-get install docker.io"
        )
    head = [docker, *(["-H", host] if host else [])]
    _asked([*head, "info"])
    if not _has_image(head, image):
        _import(head, image, root)
    argv = [*head, "run", "-i", "--rm", "--network", "none", image]
    return lambda: first_word([*argv, "bash", "-c", "echo ok"])


def _asked(argv: Sequence[str]) -> None:
    done = subprocess.run(  # docker's own client
        argv, capture_output=True, text=True, check=False, timeout=30
    )
    if done.returncode != 0:
        raise MissingRequirement(
            f"Docker does not answer: {done.stderr.strip()}",
            remedy="start the daemon, or name it with --docker-host",
        )


def _has_image(head: Sequence[str], image: str) -> bool:
    done = subprocess.run(  # docker's own client
        [*head, "image", "inspect", image], capture_output=True, check=False, timeout=30
    )
    return done.returncode == 0


def _import(head: Sequence[str], image: str, root: Path) -> None:
    if root == Path("/"):
        raise MissingRequirement(
            f"Docker has no image {image}, and there is no base image to import.",
            remedy="rlvr images build base",
        )
    tar = shutil.which("tar") or "tar"
    with subprocess.Popen(  # the system's tar
        [tar, "-C", str(root), "-c", "."], stdout=subprocess.PIPE
    ) as packing:
        subprocess.run(  # docker's own client
            [*head, "import", "-", image],
            stdin=packing.stdout,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=600,
        )


def first_word(argv: Sequence[str], *, cwd: Path | None = None) -> bytes:
    """Run a command to its end and return what it printed.

    Raises:
        MissingRequirement: If it failed.
    """
    done = subprocess.run(  # a peer's own command
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
        cwd=cwd,
    )
    if done.returncode != 0 or done.stdout.strip() != b"ok":
        said = done.stderr.decode(errors="replace").strip()
        raise MissingRequirement(
            f"{argv[0]} did not answer: {said}",
            remedy=f"see whether `{argv[0]}` works by itself on this machine",
        )
    return done.stdout
