"""The Docker daemon: reached, checked, and swept of what dead trainers left."""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_envs.errors import MissingRequirement, SandboxError
from rlvr_envs.records import Places
from rlvr_envs.sandbox.docker_images import LABEL
from rlvr_envs.sandbox.mounting import unmount_below
from rlvr_envs.sandbox.owners import is_abandoned, owner_name
from rlvr_envs.sandbox.perprocess import PerProcess

OWNER = f"{LABEL}.owner"
"""Label that names the process which a container belongs to."""

TIMEOUT_S = 120
STORAGE_DRIVER = "overlay2"
RUN, SEALED = "docker", "sealed"


@dataclass(frozen=True, slots=True)
class Daemon:
    """Which daemon, and what it starts containers with.

    Attributes:
        url: Its socket; it has to run on this machine.
        runtime: ``runc``, ``runsc`` (gVisor) or a Kata runtime that it knows.
    """

    url: str = "unix:///var/run/docker.sock"
    runtime: str = "runc"

    def client(self) -> Any:
        """Return this process's `docker.DockerClient`.

        Raises:
            MissingRequirement: If the SDK is missing or no daemon answers.
        """
        return _clients.get(self.url)

    def forget(self) -> None:
        """Close this process's connections to every daemon; the next call connects."""
        _clients.close()
        _GUARDED.clear()
        while _KEPT:
            os.close(_KEPT.pop())

    def check(self) -> None:
        """Raise if this daemon cannot run sandboxes.

        Raises:
            MissingRequirement: With the remedy.
        """
        if os.geteuid() != 0:
            raise MissingRequirement(
                "The docker backend looks at containers' files and control groups "
                "from the host, and this process is not root.",
                remedy="run as root.",
            )
        info = self.client().info()
        if info["Driver"] != STORAGE_DRIVER:
            raise MissingRequirement(
                f"The Docker daemon stores images with {info['Driver']!r}.",
                remedy=f"start dockerd with --storage-driver {STORAGE_DRIVER}.",
            )
        if self.runtime not in info["Runtimes"]:
            raise MissingRequirement(
                f"The Docker daemon knows no runtime {self.runtime!r}, only "
                f"{', '.join(sorted(info['Runtimes']))}.",
                remedy="install it and name it in the daemon's configuration.",
            )
        if not Path(info["DockerRootDir"]).is_dir():
            raise MissingRequirement(
                "The Docker daemon keeps its files on another machine.",
                remedy="use a daemon that runs on this one.",
            )


def _sdk() -> Any:
    try:
        return importlib.import_module("docker")
    except ImportError as error:
        raise MissingRequirement(
            "The Docker SDK for Python is not installed.",
            remedy="pip install 'rlvr-envs[docker]'.",
        ) from error


def _connected(url: str) -> Any:
    sdk = _sdk()
    _knock(url)
    try:
        client = sdk.DockerClient(base_url=url, timeout=TIMEOUT_S)
        _pinged(client)
    except Exception as error:
        raise _absent(url, error) from error
    return client


def _knock(url: str) -> None:
    """See whether anybody listens; the SDK leaves its socket open where not."""
    kind, _, path = url.partition("://")
    if kind != "unix":
        return
    with socket.socket(socket.AF_UNIX) as channel:
        try:
            channel.connect(path)
        except OSError as error:
            raise _absent(url, error) from error


def _absent(url: str, error: Exception) -> MissingRequirement:
    return MissingRequirement(
        f"No Docker daemon answers at {url} ({type(error).__name__}).",
        remedy="apt-get install docker.io, and start dockerd; or use the "
        "namespaces backend.",
    )


def _pinged(client: Any) -> None:
    try:
        client.ping()
    except BaseException:
        client.close()
        raise


_clients = PerProcess(_connected)
atexit.register(_clients.close)


def runs(places: Places) -> Path:
    """Return the folder that holds one folder for each living container."""
    folder = places.run / RUN
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def sealed(places: Places) -> Path:
    """Return the folder that holds sealed layers, one folder each."""
    folder = places.store / RUN / SEALED
    folder.mkdir(parents=True, exist_ok=True)
    return folder


_GUARDED: set[tuple[int, Daemon, Places]] = set()
_GUARDED_LOCK = threading.Lock()


def guard(daemon: Daemon, places: Places) -> None:
    """Sweep what the dead left, and see to it that this process leaves nothing.

    A small process waits for the end of this one, however it comes, and then
    removes its containers, mounts and folders.

    Raises:
        SandboxError: If the guard cannot be started.
    """
    key = (os.getpid(), daemon, places)
    with _GUARDED_LOCK:
        if key in _GUARDED:
            return
        sweep(daemon, places)
        _start_guard(daemon, places)
        _GUARDED.add(key)


def _start_guard(daemon: Daemon, places: Places) -> None:
    ours, theirs = os.pipe()
    os.set_inheritable(ours, False)  # noqa: FBT003 (its only parameter)
    words = [daemon.url, str(places.store), str(places.run), owner_name()]
    try:
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "rlvr_envs.sandbox.docker_guard", *words],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, ours, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
        )
    except OSError as error:
        raise SandboxError(f"The container guard cannot start: {error}.") from error
    finally:
        os.close(ours)
    _KEPT.append(theirs)


_KEPT: list[int] = []
"""Write ends of the guards' pipes; the kernel closes them when this process ends."""


def sweep(daemon: Daemon, places: Places, *, owner: str = "") -> int:
    """Remove containers, mounts and folders of processes that are gone.

    Args:
        daemon: Where the containers are.
        places: Where the folders are.
        owner: Remove this owner's as well; it may be alive.

    Returns:
        How many containers were removed.
    """

    def gone(name: str) -> bool:
        return is_abandoned(name) or (bool(owner) and name.startswith(owner))

    removed = 0
    containers = daemon.client().containers.list(
        all=True, filters={"label": OWNER}, ignore_removed=True
    )
    for container in containers:
        if gone(container.labels[OWNER]):
            remove(container)
            removed += 1
    for folder in (*runs(places).iterdir(), *sealed(places).iterdir()):
        if gone(folder.name):
            unmount_below(folder)
            shutil.rmtree(folder, ignore_errors=True)
    return removed


def remove(container: Any) -> None:
    """Kill and remove a container; one that is gone is no error.

    Raises:
        SandboxError: If the daemon does not do it.
    """
    errors = importlib.import_module("docker.errors")
    try:
        container.remove(force=True, v=True)
    except errors.NotFound:
        return
    except errors.APIError as error:
        if error.status_code == 409:
            with suppress(errors.NotFound):
                container.wait(condition="removed", timeout=TIMEOUT_S)
            return
        raise SandboxError(f"A container cannot be removed: {error}.") from error
