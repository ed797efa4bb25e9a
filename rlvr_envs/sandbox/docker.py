"""Sandboxes as containers of a Docker daemon, for hosts that allow only that.

It has no disk and no inode quota, and a reset takes some 400 ms. Our own init is
pid 1, so that a step never goes through the daemon.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from rlvr_envs.errors import SandboxError, boundary
from rlvr_envs.records import Layer, Places
from rlvr_envs.sandbox import freezing, mounting
from rlvr_envs.sandbox.base import (
    Bind,
    Capability,
    Process,
    Sandbox,
    SandboxSpec,
    SealedLayer,
    StepGroup,
)
from rlvr_envs.sandbox.counters import unrouted
from rlvr_envs.sandbox.docker_container import (
    INIT,
    SOCKET,
    accept,
    listener,
    mount_points,
    number_from_here,
    options,
    write_proc_files,
)
from rlvr_envs.sandbox.docker_daemon import Daemon, guard, remove, runs
from rlvr_envs.sandbox.docker_files import (
    checked_source,
    forget,
    lay_in,
    mark_removed,
    parted,
    sealed_copy,
    set_times,
    show,
)
from rlvr_envs.sandbox.docker_group import ContainerGroup
from rlvr_envs.sandbox.docker_images import image_for
from rlvr_envs.sandbox.ending import KILL_S, end_and_count
from rlvr_envs.sandbox.harness import HarnessFolder
from rlvr_envs.sandbox.launcher import launcher
from rlvr_envs.sandbox.owners import owner_name
from rlvr_envs.sandbox.spawning import InitChannel
from rlvr_envs.sandbox.stepgroups import BornSince
from rlvr_envs.state import Census

HARNESS_BYTES = 64 << 20
"""Of the sandbox's folder, a file system of its own: what its mount table says of
that folder begins there, and tells nothing of the host.
"""

_NUMBERS = itertools.count()


class _Phase(Enum):
    NEW = "was not started"
    RUNNING = "runs"
    KILLED = "was killed"
    GONE = "is gone"


class DockerSandbox(Sandbox):
    """A container on a daemon of this machine; needs root.

    `docker_backend` makes the class for another socket or runtime.
    """

    daemon: ClassVar[Daemon] = Daemon()

    def __init__(self, spec: SandboxSpec, places: Places | None = None) -> None:
        super().__init__(spec, places)
        self._phase = _Phase.NEW
        self._frozen = False
        self._lock = threading.RLock()
        self._folder: Path | None = None
        self._init: InitChannel | None = None
        self._container: Any = None
        self._pidfd = -1
        self._id_base = 0
        self._top: Layer | None = None

    @classmethod
    @override
    def capabilities(cls) -> frozenset[Capability]:
        return frozenset(
            {
                Capability.COMMIT,
                Capability.BRANCH,
                Capability.SYSTEM_VIEW,
                Capability.EGRESS_EVENTS,
                Capability.HARNESS_LISTENERS,
            }
        )

    @classmethod
    @override
    def check(cls) -> None:
        cls.daemon.check()

    @property
    @override
    def id_base(self) -> int:
        return self._id_base

    @override
    def start(self) -> None:
        with self._lock:
            if self._phase is not _Phase.NEW:
                raise SandboxError(f"A sandbox is used once; this one {self._is}.")
            self.check()
            try:
                with boundary(SandboxError, "starting a container"):
                    self._start()
            except BaseException:
                self._clear()
                raise

    def _start(self) -> None:
        guard(self.daemon, self.places)
        folder = runs(self.places) / f"{owner_name()}-{next(_NUMBERS)}"
        self._folder = folder
        harness = self._furnish(folder)
        client = self.daemon.client()
        below, self._top = parted(self.spec.snapshot, self.places)
        points = mount_points(self.spec)
        image = image_for(client, below, self.places, points)
        runtime = self.daemon.runtime
        wanted = options(self.spec, harness, folder / "targets", runtime=runtime)
        with listener(harness) as listening:
            self._container = client.containers.create(image, **wanted)
            if self._top is not None:
                lay_in(self._top, Path(self._driver("UpperDir")))
            self._container.start()
            channel = accept(listening, self._container)
        self._adopt(channel)
        number_from_here(self._pid)
        for name in (INIT, SOCKET):
            (harness / name).unlink()
        own = replace(self.spec, id_base=self._id_base)
        self._harness = HarnessFolder(harness, own)
        self._phase = _Phase.RUNNING
        for name, data in self.spec.files.items():
            self.put(name, data)

    def _furnish(self, folder: Path) -> Path:
        """Make what the container is shown; return the harness folder."""
        folder.mkdir()
        mounting.tmpfs(folder, HARNESS_BYTES)
        for name in ("harness", "targets", "detour"):
            (folder / name).mkdir()
        write_proc_files(self.spec, folder / "proc")
        if self.spec.targets:
            limit_bytes = self.spec.confinement.limits.disk_bytes
            mounting.tmpfs(folder / "targets", limit_bytes)
            mounting.share(folder / "targets")
        for place in range(len(self.spec.targets)):
            (folder / "targets" / str(place)).mkdir()
        shutil.copy(launcher(self.places), folder / "harness" / INIT)
        self._born_ns = (folder / "harness" / INIT).stat().st_mtime_ns
        return folder / "harness"

    def _adopt(self, channel: socket.socket) -> None:
        """Take over a container whose init has called."""
        self._container.reload()
        self._pid = int(self._container.attrs["State"]["Pid"])
        self._pidfd = os.pidfd_open(self._pid)
        self._init = InitChannel(channel, self._pidfd)
        self._group = ContainerGroup(self._pid)
        mapping = Path(f"/proc/{self._pid}/uid_map").read_text().split()
        self._id_base = int(mapping[1])

    @override
    def spawn(
        self,
        argv: Sequence[str],
        *,
        fds: Sequence[int],
        env: Mapping[str, str],
        cwd: str = "/",
        user: int = 1000,
        tty: bool = False,
    ) -> Process:
        return self._living().spawn(argv, fds=fds, env=env, cwd=cwd, user=user, tty=tty)

    @override
    def step_group(self) -> StepGroup:
        self._living()
        return BornSince(self, self._pid)

    def members(self) -> Sequence[int]:
        """Return the pids of every process inside, init's too."""
        return self._group.members()

    def stop(self) -> bool:
        """Stop every process for a moment; whether that worked in time."""
        try:
            freezing.freeze(self._group)
        except SandboxError:
            return False
        return True

    @property
    def dies_stopped(self) -> bool:
        """Whether a process that stands still ends when it is killed."""
        return self._group.unified is not None

    def resume(self) -> None:
        """End a `stop`; a sandbox that `freeze` stopped stays frozen."""
        if not self._frozen:
            freezing.thaw(self._group)

    @override
    def put(self, name: str, data: bytes) -> str:
        self._need(_Phase.RUNNING, _Phase.KILLED)
        return self._harness.put(name, data)

    @override
    def listen(self, kind: socket.SocketKind, address: str, port: int) -> socket.socket:
        return self._living().listen(kind, address, port)

    @override
    def terminal(self) -> tuple[int, int]:
        return self._living().terminal()

    @override
    def unrouted(self) -> int:
        self._living()
        return unrouted(self._pid)

    @override
    def set_times(self, wall_s: float) -> None:
        self._need(_Phase.RUNNING, _Phase.KILLED)
        moment = round(wall_s * 1_000_000_000)
        with boundary(SandboxError, "setting file times"):
            set_times(self.upper(), since_ns=self._born_ns, moment_ns=moment)
        self._harness.set_time(wall_s)

    @override
    def attach(self, bind: Bind) -> None:
        self._need(_Phase.RUNNING)
        if bind.target not in self.spec.targets:
            raise ValueError(f"{bind.target} is no target of this sandbox's spec.")
        place = self.spec.targets.index(bind.target)
        home, source = self._home(), checked_source(bind.source)
        mounting.bind_read_only(
            source, home / "targets" / str(place), by=home / "detour"
        )

    @override
    def freeze(self) -> None:
        self._need(_Phase.RUNNING)
        freezing.freeze(self._group)
        self._frozen = True

    @override
    def thaw(self) -> None:
        self._need(_Phase.RUNNING)
        self._frozen = False
        freezing.thaw(self._group)

    @override
    def kill(self) -> Census:
        with self._lock:
            init = self._living()
            own = init.own_pids() | {self._pid}
            census = end_and_count(self._group, self._pidfd, own)
            init.close()
            with boundary(SandboxError, "waiting for the container's end"):
                self._container.wait(timeout=KILL_S)
            self._phase = _Phase.KILLED
            if self._top is not None:
                with boundary(SandboxError, "completing a writable layer"):
                    mark_removed(self.upper(), self._top)
            return census

    @override
    def view(self) -> Path:
        with self._lock:
            self._need(_Phase.KILLED)
            target = self._home() / "view"
            if not target.exists():
                lowers = [Path(part) for part in self._driver("LowerDir").split(":")]
                top = Layer("sha256:upper", self.upper(), shifted=self._id_base > 0)
                show(self.spec.snapshot, top, lowers, target)
            return target

    @override
    def upper(self) -> Path:
        self._need(_Phase.RUNNING, _Phase.KILLED)
        return Path(self._driver("UpperDir"))

    @override
    def commit(self) -> SealedLayer:
        with self._lock:
            self._need(_Phase.KILLED)
            return self._copied()

    @override
    def branch(self) -> SealedLayer:
        with self._lock:
            self._need(_Phase.RUNNING, _Phase.KILLED)
            pause = self._phase is _Phase.RUNNING and not self._frozen
            if pause:
                freezing.freeze(self._group)
            try:
                return self._copied()
            finally:
                if pause:
                    freezing.thaw(self._group)

    def _copied(self) -> SealedLayer:
        shifted = self._id_base > 0
        return sealed_copy(self.upper(), self.places, shifted=shifted, top=self._top)

    @override
    def destroy(self) -> None:
        with self._lock:
            self._phase = _Phase.GONE
            self._clear()

    def _clear(self) -> None:
        """Remove container, mounts and folder, as far as they were made."""
        if self._init is not None:
            self._init.close()
            self._init = None
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if self._folder is not None:
            forget(self._folder / "view")
            mounting.unmount_below(self._folder)
        if self._container is not None:
            remove(self._container)
            self._container = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _living(self) -> InitChannel:
        self._need(_Phase.RUNNING)
        if self._init is None:
            raise SandboxError("The sandbox is gone.")
        return self._init

    def _home(self) -> Path:
        if self._folder is None:
            raise SandboxError("The sandbox is gone.")
        return self._folder

    def _driver(self, name: str) -> str:
        return str(self._container.attrs["GraphDriver"]["Data"][name])

    def _need(self, *phases: _Phase) -> None:
        if self._phase not in phases:
            wanted = " or ".join(phase.value for phase in phases)
            raise SandboxError(f"The sandbox {self._is}; it must be one that {wanted}.")

    @property
    def _is(self) -> str:
        return self._phase.value


def docker_backend(daemon: Daemon) -> type[DockerSandbox]:
    """Return the backend's class for another daemon or runtime."""
    return type("DockerSandbox", (DockerSandbox,), {"daemon": daemon})
