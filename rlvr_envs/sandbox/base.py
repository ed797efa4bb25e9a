"""The contract that every sandbox backend keeps.

prepare -> start -> spawn ... -> freeze -> kill -> (view | commit) -> destroy
                      |-> branch (the episode lives on)

A backend works on read-only layers and a spec, never on images by name.
"""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rlvr_envs.confinement import Confinement
from rlvr_envs.records import Layer, Places, Snapshot
from rlvr_envs.state import Census

HARNESS_FOLDER = "/run/rlvr"
"""Inside: read-only to everyone there, written by the host, no part of the state."""


class Capability(StrEnum):
    """What a backend can do; a test asks for one of these, never for a backend."""

    USERNS = "userns"
    DISK_QUOTA = "disk_quota"
    INODE_QUOTA = "inode_quota"
    COMMIT = "commit"
    BRANCH = "branch"
    SYSTEM_VIEW = "system_view"
    EGRESS_EVENTS = "egress_events"
    HARNESS_LISTENERS = "harness_listeners"
    CHECKPOINT = "checkpoint"
    VIRTUAL_CLOCK = "virtual_clock"


@dataclass(frozen=True, slots=True)
class Bind:
    """A host folder shown read-only inside.

    Attributes:
        source: Host path; ``/proc/<pid>/root/...`` reaches another sandbox's view.
        reowned: Its files carry the agent range's host ids and shall appear with
            the same plain ids here (for a final root shown to a verifier).
    """

    source: Path
    target: str
    reowned: bool = False


def check_name(name: str) -> None:
    """Refuse what is no name of a harness file.

    Raises:
        ValueError: If it is no plain file name.
    """
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"A harness file has a plain name, not {name!r}.")


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What to build.

    Attributes:
        id_base: First host uid and gid of the 65536 that the sandbox maps:
            `AGENT_IDS` or `VERIFIER_IDS`, so that neither can touch the other.
        targets: Empty folders to make at the root, for later `attach`.
        files: What is in the harness folder from the first moment, as by `put`; at
            most 100 KB together, without NUL bytes.

    Raises:
        ValueError: If a file's name is no plain one.
    """

    snapshot: Snapshot
    confinement: Confinement = field(default_factory=Confinement)
    hostname: str = "sandbox"
    id_base: int = 100_000
    binds: tuple[Bind, ...] = ()
    targets: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.files:
            check_name(name)


AGENT_IDS = 100_000
VERIFIER_IDS = 200_000


class Process(Protocol):
    """A process inside a sandbox, as the host sees it."""

    @property
    def pid(self) -> int:
        """Process id in the host's namespace."""

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Return its exit status (128 + signal if killed); None if it still runs."""

    def kill(self) -> None:
        """Send SIGKILL; a process that is gone is no error."""


class StepGroup(Protocol):
    """The processes of one step, to be killed together on a timeout."""

    def add(self, pid: int) -> None:
        """Move a process in; its future children follow."""

    def release(self, pid: int) -> None:
        """Move a process back to the sandbox's own group."""

    def kill(self, *, spare: int = 0, wake: Callable[[], None] | None = None) -> int:
        """Kill every member but ``spare``; return how many were killed.

        ``wake`` is called before the spared one goes on.
        """

    def close(self) -> None:
        """Move survivors to the sandbox's own group and remove the step's."""


class SealedLayer(Protocol):
    """A layer with an owner: other sandboxes may start from it until `close`."""

    @property
    def layer(self) -> Layer:
        """The layer, on top of the snapshot that its episode started from."""

    def close(self) -> None:
        """Release its storage; idempotent."""


class Sandbox(ABC):
    """One sandbox, used once; `destroy` is idempotent and safe at any point."""

    def __init__(self, spec: SandboxSpec, places: Places | None = None) -> None:
        self.spec = spec
        self.places = places or Places()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.destroy()

    @property
    def id_base(self) -> int:
        """Host uid and gid of 0 inside, as the files of `view` and `upper` carry it."""
        return self.spec.id_base

    @classmethod
    @abstractmethod
    def capabilities(cls) -> frozenset[Capability]:
        """Return what this backend can do."""

    @classmethod
    @abstractmethod
    def check(cls) -> None:
        """Raise `MissingRequirement` with the remedy if this machine lacks something."""

    @abstractmethod
    def start(self) -> None:
        """Build it and start its init; returns when `spawn` works.

        Raises:
            MissingRequirement: If the machine lacks a privilege or a binary.
            SandboxError: If the kernel or a daemon refused.
        """

    @abstractmethod
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
        """Start a process inside.

        Args:
            argv: The first is a path, or a name sought in ``env["PATH"]``.
            fds: Host descriptors that become 0, 1, 2, 3, ... there. The caller
                keeps its copies and closes them.
            env: The whole environment.
            cwd: Working directory inside.
            user: Uid and gid inside; it gets no supplementary groups.
            tty: Descriptor 0 is a terminal and becomes the controlling one.

        Raises:
            OSError: With the errno of exec or chdir, if the program cannot start.
            SandboxError: If the sandbox is gone.
        """

    @abstractmethod
    def step_group(self) -> StepGroup:
        """Make the group for one step."""

    @abstractmethod
    def put(self, name: str, data: bytes) -> str:
        """Write a file that the agent can read and not change.

        Args:
            name: A plain file name.
            data: Its content; replaces an earlier file atomically.

        Returns:
            Its path inside, under `HARNESS_FOLDER`.

        Raises:
            SandboxError: If the harness folder is full or the sandbox gone.
        """

    @abstractmethod
    def listen(self, kind: socket.SocketKind, address: str, port: int) -> socket.socket:
        """Open a socket in the sandbox's network namespace, owned by the host.

        Args:
            kind: ``SOCK_STREAM`` (returned listening) or ``SOCK_DGRAM``.
            address: A loopback IPv4 address.
            port: 0 for any.
        """

    def terminal(self) -> tuple[int, int]:
        """Open a pseudo-terminal: the host's end, and the one to spawn with.

        Backends that can make it one of the sandbox's own, so that programs inside
        find its name. Both descriptors are the caller's to close.
        """
        return os.openpty()

    @abstractmethod
    def unrouted(self) -> int:
        """Return how many packets had no route so far, of IP and IPv6 together."""

    @abstractmethod
    def set_times(self, wall_s: float) -> None:
        """Give files that carry the host's present time the virtual one."""

    def pass_turn(self, wall_s: float, name: str, data: bytes) -> None:
        """Set the times of files as a turn ends, and put a file for the next one.

        Args:
            wall_s: As for `set_times`.
            name: As for `put`.
            data: Its content, text without NULs.

        It may go on in the background: `settle` before anything runs again.

        Raises:
            SandboxError: As for `set_times` and `put`, here or from `settle`.
        """
        self.set_times(wall_s)
        self.put(name, data)

    def settle(self) -> None:
        """Wait for what `pass_turn` began."""
        return

    @abstractmethod
    def attach(self, bind: Bind) -> None:
        """Mount a folder read-only into the running sandbox, at a spec target."""

    @abstractmethod
    def freeze(self) -> None:
        """Stop every process; nothing inside runs when this returns."""

    @abstractmethod
    def thaw(self) -> None:
        """Let the processes of a frozen sandbox go on."""

    @abstractmethod
    def kill(self) -> Census:
        """Freeze, kill every process, and count until none is left.

        Raises:
            SandboxError: If a process outlives the deadline.
        """

    @abstractmethod
    def view(self) -> Path:
        """Mount the final root read-only and return its host path; after `kill`."""

    @abstractmethod
    def upper(self) -> Path:
        """Return the host path of the writable layer (overlay whiteouts inside)."""

    @abstractmethod
    def commit(self) -> SealedLayer:
        """Make the writable layer of a killed sandbox a layer, without copying.

        The sandbox's storage then belongs to the sealed layer.
        """

    @abstractmethod
    def branch(self) -> SealedLayer:
        """Freeze a living sandbox, copy its writable layer, thaw it."""

    def retire(self) -> None:
        """Begin to end everything inside, and return at once; `destroy` follows."""
        return

    @abstractmethod
    def destroy(self) -> None:
        """Kill what runs and remove every trace; idempotent."""
