"""What a container of ours is created with, and the call of its init."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.base import HARNESS_FOLDER, SandboxSpec
from rlvr_envs.sandbox.docker_daemon import OWNER
from rlvr_envs.sandbox.docker_files import checked_source
from rlvr_envs.sandbox.docker_images import LABEL
from rlvr_envs.sandbox.owners import owner_name
from rlvr_envs.sandbox.procfiles import proc_files

PROC_FILES = frozenset(["cpuinfo", "loadavg", "meminfo", "stat", "uptime"])
"""Those that runtimes let be mounted over."""

LAST_PID = 63
"""Processes of the sandbox are numbered from the next; runtimes use some before."""

START_S = 60.0
INIT, SOCKET = "init", "socket"
_INIT_PIDS = 1

KEPT_CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
)
"""What init keeps for the sandbox's root; nothing else is ever held."""


def options(
    spec: SandboxSpec, harness: Path, targets: Path, *, runtime: str
) -> dict[str, Any]:
    """Return what the container is created with.

    The daemon's own seccomp profile is off, because it forbids init to fix the
    address layout; init's filter, which is narrower, takes its place before
    anything else runs.

    Args:
        spec: Of the sandbox.
        harness: Host folder for `HARNESS_FOLDER`; init and its socket lie there.
        targets: Host folder with a numbered folder for each target of the spec.
        runtime: As the daemon knows it.
    """
    limits = spec.confinement.limits
    return {
        "command": [
            f"{HARNESS_FOLDER}/{INIT}",
            "--serve",
            f"{HARNESS_FOLDER}/{SOCKET}",
        ],
        "network_mode": "none",
        "hostname": spec.hostname,
        "user": "0:0",
        "working_dir": "/",
        "cap_drop": ["ALL"],
        "cap_add": list(KEPT_CAPABILITIES),
        "security_opt": ["no-new-privileges", "seccomp=unconfined"],
        "mem_limit": limits.memory_bytes,
        "memswap_limit": limits.memory_bytes,
        "pids_limit": limits.pids + _INIT_PIDS,
        "cpu_shares": max(2, limits.cpu_weight * 1024 // 100),
        "runtime": runtime,
        "labels": {LABEL: "sandbox", OWNER: owner_name()},
        "log_config": {"type": "none", "config": {}},
        "mounts": list(_mounts(spec, harness, targets)),
    }


def write_proc_files(spec: SandboxSpec, folder: Path) -> None:
    """Write what stands in for kernel files that would tell of the host."""
    folder.mkdir()
    for name, text in proc_files(spec).items():
        if name in PROC_FILES:
            (folder / name).write_text(text)


def number_from_here(pid: int) -> None:
    """Let the next process in a container have a number that is always the same.

    Kernels without checkpoint support cannot; there the numbers vary a little.
    """
    subprocess.run(
        ["nsenter", f"--target={pid}", "--pid", "sh", "-c", _NUMBER],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=START_S,
        check=False,
    )


_NUMBER = f"echo {LAST_PID} > /proc/sys/kernel/ns_last_pid"


def mount_points(spec: SandboxSpec) -> tuple[str, ...]:
    """Return the folders that something is mounted upon, absolute."""
    return (HARNESS_FOLDER, *(bind.target for bind in spec.binds), *spec.targets)


def _mounts(spec: SandboxSpec, harness: Path, targets: Path) -> Iterator[Any]:
    yield _bind(harness, HARNESS_FOLDER, "rprivate")
    for name in proc_files(spec):
        if name in PROC_FILES:
            yield _bind(harness.parent / "proc" / name, f"/proc/{name}", "rprivate")
    for bind in spec.binds:
        yield _bind(checked_source(bind.source), bind.target, "rprivate")
    for place, target in enumerate(spec.targets):
        yield _bind(targets / str(place), target, "rslave") | {"ReadOnly": False}


def _bind(source: Path, target: str, propagation: str) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": str(source),
        "Target": target,
        "ReadOnly": True,
        "BindOptions": {"Propagation": propagation},
    }


def listener(harness: Path) -> socket.socket:
    """Listen in the harness folder, whose path may be longer than an address."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.open(harness, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found.bind(f"/proc/self/fd/{folder}/{SOCKET}")
    finally:
        os.close(folder)
    (harness / SOCKET).chmod(0o777)
    found.listen(1)
    found.settimeout(START_S)
    return found


def accept(listening: socket.socket, container: Any) -> socket.socket:
    """Wait for the call of a container's init.

    Raises:
        SandboxError: If none comes; says how the container fared.
    """
    try:
        return listening.accept()[0]
    except TimeoutError:
        container.reload()
        state = container.attrs["State"]
        raise SandboxError(
            f"The container's init did not call within {START_S} s; the container is "
            f"{state['Status']}, status {state['ExitCode']}. {state['Error']}"
        ) from None
