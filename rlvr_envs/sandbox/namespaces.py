"""The default backend: Linux namespaces, an overlay, control groups, a filter."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path

from typing_extensions import override

from rlvr_envs.confinement import Limits
from rlvr_envs.errors import MissingRequirement, SandboxError
from rlvr_envs.records import Layer, Places, Snapshot, digest_of
from rlvr_envs.sandbox import freezing
from rlvr_envs.sandbox.base import (
    AGENT_IDS,
    Bind,
    Capability,
    Process,
    Sandbox,
    SandboxSpec,
    SealedLayer,
    StepGroup,
)
from rlvr_envs.sandbox.ending import end_and_count
from rlvr_envs.sandbox.harness import HarnessFolder
from rlvr_envs.sandbox.hulls import Hull
from rlvr_envs.sandbox.overlay import (
    attachment,
    entry,
    frozen_view,
    probe,
    storage,
    system_probe,
    verifier_view,
)
from rlvr_envs.sandbox.runtime import Runtime, require_root, runtime
from rlvr_envs.sandbox.spawning import InitChannel
from rlvr_envs.sandbox.stepgroups import BornSince
from rlvr_envs.sandbox.supervisor import Supervisor
from rlvr_envs.sandbox.wire import Packet, Refused
from rlvr_envs.state import Census

_CAPABILITIES = frozenset(Capability) - {
    Capability.CHECKPOINT,
    Capability.VIRTUAL_CLOCK,
}


class _Phase(Enum):
    NEW = "was not started"
    RUNNING = "runs"
    KILLED = "was killed"
    LEFT = "is being ended"
    GONE = "is gone"


class NamespaceSandbox(Sandbox):
    """A sandbox of namespaces; needs root on the host and nothing of an image."""

    def __init__(self, spec: SandboxSpec, places: Places | None = None) -> None:
        super().__init__(spec, places)
        self._phase = _Phase.NEW
        self._frozen = False
        self._sealed = False
        self._views: dict[str, Path] = {}
        self._lock = threading.RLock()

    @classmethod
    @override
    def capabilities(cls) -> frozenset[Capability]:
        return _CAPABILITIES

    @classmethod
    @override
    def check(cls) -> None:
        require_root()
        places = Places()
        shared = runtime(places)
        packet = Packet()
        probe(packet, shared.room, places.store, shared.maps)
        try:
            _build_once(shared, packet)
        except Refused as error:
            raise MissingRequirement(
                f"This kernel cannot build sandboxes: {error}",
                remedy="use Linux 5.19 or newer with user namespaces and overlayfs, "
                "and a store on a file system that can be idmapped (ext4, xfs, btrfs).",
            ) from error

    @classmethod
    def check_system(cls) -> None:
        """Check that a final root can be shown with its owners moved.

        Raises:
            MissingRequirement: If the kernel cannot idmap memory.
        """
        require_root()
        shared = runtime(Places())
        packet = Packet()
        system_probe(packet, shared.room, shared.maps)
        try:
            _build_once(shared, packet)
        except Refused as error:
            raise MissingRequirement(
                f"This kernel cannot show a final root to a judge: {error}",
                remedy="use Linux 6.3 or newer",
            ) from error

    @override
    def start(self) -> None:
        with self._lock:
            if self._phase is not _Phase.NEW:
                raise SandboxError(f"A sandbox is used once; this one {self._is}.")
            shared = runtime(self.places)
            packet = shared.worlds.packet(self._expanded(shared))
            hull = shared.hulls.take()
            try:
                self._build(shared, hull, packet)
            except BaseException:
                hull.close()
                raise
            self._adopt(shared, hull)

    def _build(self, shared: Runtime, hull: Hull, packet: Packet) -> None:
        before, after = Packet(), Packet()
        hull.group.limitation(before, self.spec.confinement.limits)
        entry(after, self.spec, shared.room)
        hull.supervisor.post(packet.around(before, after))
        try:
            with contextlib.suppress(SandboxError):
                shared.hulls.restock()
        finally:
            hull.supervisor.collect()

    def _adopt(self, shared: Runtime, hull: Hull) -> None:
        self._shared = shared
        self._hull = hull
        self._init = InitChannel(hull.spawn_channel, hull.init)
        self._room = hull.supervisor.root / str(shared.room).lstrip("/")
        self._harness = HarnessFolder(self._room / "h", self.spec)
        self._phase = _Phase.RUNNING
        shared.views[self._room] = self

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
        self._need(_Phase.RUNNING)
        return self._init.spawn(argv, fds=fds, env=env, cwd=cwd, user=user, tty=tty)

    @override
    def step_group(self) -> StepGroup:
        self._need(_Phase.RUNNING)
        return BornSince(self, self._hull.init_pid)

    def members(self) -> Sequence[int]:
        """Return the pids of every process inside, init's too."""
        return self._hull.group.members()

    def stop(self) -> bool:
        """Stop every process for a moment; whether that worked in time."""
        try:
            freezing.freeze(self._hull.group)
        except SandboxError:
            return False
        return True

    @property
    def dies_stopped(self) -> bool:
        """Whether a process that stands still ends when it is killed."""
        return self._hull.group.unified is not None

    def resume(self) -> None:
        """End a `stop`; a sandbox that `freeze` stopped stays frozen."""
        if not self._frozen:
            freezing.thaw(self._hull.group)

    @override
    def put(self, name: str, data: bytes) -> str:
        self._need(_Phase.RUNNING, _Phase.KILLED)
        return self._harness.put(name, data)

    @override
    def listen(self, kind: socket.SocketKind, address: str, port: int) -> socket.socket:
        self._need(_Phase.RUNNING)
        return self._init.listen(kind, address, port)

    @override
    def terminal(self) -> tuple[int, int]:
        self._need(_Phase.RUNNING)
        return self._init.terminal()

    @override
    def unrouted(self) -> int:
        self._need(_Phase.RUNNING)
        told = self._hull.supervisor.told()
        if told is None:
            packet = Packet()
            packet.add("unrouted")
            self._hull.supervisor.defer(packet)
            told = self._hull.supervisor.told()
        return told or 0

    @override
    def set_times(self, wall_s: float) -> None:
        self._need(_Phase.RUNNING, _Phase.KILLED)
        packet = Packet()
        packet.add("times", *_moment(wall_s))
        self._hull.supervisor.request(packet)
        self._harness.set_time(wall_s)

    @override
    def pass_turn(self, wall_s: float, name: str, data: bytes) -> None:
        self._need(_Phase.RUNNING, _Phase.KILLED)
        moment = _moment(wall_s)
        packet = Packet()
        packet.add("unrouted", "times", *moment)
        packet.add("replace", "h", name, self.spec.id_base, *moment, data)
        self._hull.supervisor.defer(packet)
        self._harness.set_time(wall_s)

    @override
    def settle(self) -> None:
        self._hull.supervisor.settle()

    @override
    def attach(self, bind: Bind) -> None:
        self._need(_Phase.RUNNING)
        packet = Packet()
        bind = _through_view(self._shared, bind, self.spec.id_base)
        attachment(packet, bind, self.spec.id_base, self._shared.maps)
        self._hull.supervisor.request(packet)

    @override
    def freeze(self) -> None:
        self._need(_Phase.RUNNING)
        freezing.freeze(self._hull.group)
        self._frozen = True

    @override
    def thaw(self) -> None:
        self._need(_Phase.RUNNING)
        self._frozen = False
        freezing.thaw(self._hull.group)

    @override
    def kill(self) -> Census:
        with self._lock:
            self._need(_Phase.RUNNING)
            own = self._init.own_pids() | {self._hull.init_pid}
            census = end_and_count(self._hull.group, self._hull.init, own)
            self._init.close()
            self._phase = _Phase.KILLED
            return census

    @override
    def view(self) -> Path:
        with self._lock:
            self._need(_Phase.KILLED)
            if "f" not in self._views:
                packet = Packet()
                self._unmerge(packet)
                frozen_view(packet, len(self._layers))
                self._hull.supervisor.request(packet)
                self._views["f"] = self._room / "f"
            return self._views["f"]

    @override
    def upper(self) -> Path:
        self._need(_Phase.RUNNING, _Phase.KILLED)
        return self._room / "u"

    @override
    def commit(self) -> SealedLayer:
        with self._lock:
            self._need(_Phase.KILLED)
            self._need_agent_range()
            packet = Packet()
            self._unmerge(packet)
            if packet.data:
                self._hull.supervisor.request(packet)
            self._sealed = True
            return _Storage(self._room / "u", self._hull.group.name, self._hull)

    @override
    def branch(self) -> SealedLayer:
        with self._lock:
            self._need(_Phase.RUNNING, _Phase.KILLED)
            self._need_agent_range()
            pause = self._phase is _Phase.RUNNING and not self._frozen
            if pause:
                freezing.freeze(self._hull.group)
            try:
                return self._copied()
            finally:
                if pause:
                    freezing.thaw(self._hull.group)

    @override
    def retire(self) -> None:
        with self._lock:
            if self._phase in (_Phase.RUNNING, _Phase.KILLED) and not self._sealed:
                self._init.close()
                self._hull.supervisor.dismiss()
                self._phase = _Phase.LEFT

    @override
    def destroy(self) -> None:
        with self._lock:
            started = self._phase in (_Phase.RUNNING, _Phase.KILLED, _Phase.LEFT)
            self._phase = _Phase.GONE
            if not started:
                return
            self._init.close()
            if not self._sealed:
                self._hull.close()

    def verifier_root(self) -> Path:
        """Mount the frozen view with its owners moved to the verifiers' range."""
        with self._lock:
            self.view()
            if "g" not in self._views:
                packet = Packet()
                maps = self._shared.maps
                verifier_view(packet, self._layers, self._room / "u", maps)
                self._hull.supervisor.request(packet)
                self._views["g"] = self._room / "g"
            return self._views["g"]

    def final_layers(self) -> tuple[Layer, ...]:
        """Return what the frozen view consists of, the base first."""
        name = digest_of(["final", self._hull.group.name])
        return (*self._layers, Layer(name, self._room / "u", shifted=True))

    def _expanded(self, shared: Runtime) -> SandboxSpec:
        """Put a view's own layers in its place: an overlay cannot be idmapped."""
        layers: list[Layer] = []
        for layer in self.spec.snapshot.layers:
            seen = shared.views.get(layer.path.parent)
            if seen is not None and layer.path.name == "f":
                layers += seen.final_layers()
            else:
                layers.append(layer)
        if not layers:
            raise ValueError("A sandbox needs a snapshot of one layer at least.")
        self._layers = tuple(layers)
        binds = tuple(
            _through_view(shared, bind, self.spec.id_base) for bind in self.spec.binds
        )
        return replace(self.spec, snapshot=Snapshot(self._layers), binds=binds)

    def _unmerge(self, packet: Packet) -> None:
        if not self._views and not self._sealed:
            packet.add("unmount", "r")

    def _copied(self) -> SealedLayer:
        limits: Limits = self.spec.confinement.limits
        supervisor = Supervisor(self._shared.program)
        try:
            packet = Packet()
            packet.add("owner", os.getpid())
            storage(packet, limits, self._shared.room, self._room / "u")
            supervisor.request(packet)
        except BaseException:
            supervisor.close()
            raise
        path = supervisor.root / str(self._shared.room).lstrip("/") / "u"
        return _Storage(path, f"{self._hull.group.name}-{supervisor.pid}", supervisor)

    def _need_agent_range(self) -> None:
        if self.spec.id_base != AGENT_IDS:
            raise ValueError("Only a sandbox of the agent's range can become a layer.")

    def _need(self, *phases: _Phase) -> None:
        if self._phase not in phases:
            wanted = " or ".join(phase.value for phase in phases)
            raise SandboxError(f"The sandbox {self._is}; it must be one that {wanted}.")

    @property
    def _is(self) -> str:
        return self._phase.value


def _moment(wall_s: float) -> tuple[int, int]:
    """Return whole seconds and nanoseconds."""
    return divmod(round(wall_s * 1_000_000_000), 1_000_000_000)


class _Storage:
    """A writable layer, and the supervisor in whose namespace it lives."""

    def __init__(self, path: Path, name: str, keeper: Hull | Supervisor) -> None:
        self._layer = Layer(digest_of(["sealed", name]), path, shifted=True)
        self._keeper = keeper

    @property
    def layer(self) -> Layer:
        """The layer, on top of the snapshot that its episode started from."""
        return self._layer

    def close(self) -> None:
        """Release its storage; idempotent."""
        self._keeper.close()


def _build_once(shared: Runtime, packet: Packet) -> None:
    """Have a supervisor of its own build what a packet says, and end it."""
    supervisor = Supervisor(shared.program)
    try:
        supervisor.request(packet)
    finally:
        supervisor.close()


def _through_view(shared: Runtime, bind: Bind, id_base: int) -> Bind:
    """Lead a reowned bind of a final root to the copy that has other owners."""
    if not bind.reowned or id_base == AGENT_IDS:
        return bind
    for folder in (bind.source, *bind.source.parents):
        seen = shared.views.get(folder.parent)
        if seen is not None and folder.name == "f":
            root = seen.verifier_root()
            source = root / bind.source.relative_to(folder)
            return Bind(source, bind.target)
    return bind
