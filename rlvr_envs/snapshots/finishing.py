"""What every image gets, whatever it was made from: identity, and nothing volatile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from rlvr_envs.errors import SnapshotError
from rlvr_envs.snapshots.beneath import resolve_parent

AGENT = "agent"
AGENT_ID = 1000
HOSTNAME = "sandbox"

IDENTITY = {
    "etc/hostname": f"{HOSTNAME}\n",
    "etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n",
    "etc/resolv.conf": "nameserver 127.0.0.1\n",
    "etc/machine-id": "",
}

ACCOUNTS = {
    "etc/passwd": f"{AGENT}:x:{AGENT_ID}:{AGENT_ID}::/home/{AGENT}:/bin/bash\n",
    "etc/group": f"{AGENT}:x:{AGENT_ID}:\n",
    "etc/shadow": f"{AGENT}:!:19723:0:99999:7:::\n",
    "etc/gshadow": f"{AGENT}:!::\n",
}

# Emptied, not removed: programs expect the folders.
VOLATILE_FOLDERS = (
    "dev",
    "proc",
    "run",
    "sys",
    "tmp",
    "var/cache/apt",
    "var/cache/debconf",
    "var/cache/ldconfig",
    "var/cache/man",
    "var/lib/apt/lists",
    "var/log",
    "var/tmp",
)

# Backups, locks, and what carries a build's time or the building host's settings.
VOLATILE_FILES = (
    ".dockerenv",
    "etc/.pwd.lock",
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/apt/preferences.d/rlvr-lock",
    "etc/apt/sources.list",
    "etc/group-",
    "etc/gshadow-",
    "etc/passwd-",
    "etc/shadow-",
    "etc/subgid-",
    "etc/subuid-",
    "var/lib/dbus/machine-id",
    "var/lib/dpkg/lock",
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/status-old",
    "var/lib/dpkg/diversions-old",
    "var/lib/dpkg/statoverride-old",
    "var/lib/dpkg/triggers/Lock",
    "var/lib/systemd/random-seed",
)

NEEDED_FOLDERS = {
    "dev": 0o755,
    "proc": 0o755,
    "run": 0o755,
    "run/lock": 0o1777,
    "sys": 0o755,
    "tmp": 0o1777,
    "var/tmp": 0o1777,
}


def clean(root: Path) -> None:
    """Remove logs, caches, package lists, locks and the builder's apt sources."""
    for name in VOLATILE_FOLDERS:
        path = resolve_parent(root, name)
        if path.is_dir() and not path.is_symlink():
            _empty(path)
    for name in VOLATILE_FILES:
        resolve_parent(root, name).unlink(missing_ok=True)
    sources = root / "etc/apt/sources.list.d"
    if sources.is_dir() and not sources.is_symlink():
        _empty(sources)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def identify(root: Path) -> None:
    """Give the image its host name, its resolver and the account of the agent.

    An account that has the agent's uid already stays as it is.
    """
    for name, mode in NEEDED_FOLDERS.items():
        _folder(root, name, mode, owner=0)
    for name, text in IDENTITY.items():
        _write(root, name, text.encode(), 0o644, owner=0)
    if not _uid_taken(root):
        _add_agent(root)


def _add_agent(root: Path) -> None:
    for name, line in ACCOUNTS.items():
        path = root / name
        if path.is_file() and not path.is_symlink():
            _append(path, line)
        elif name in ("etc/passwd", "etc/group"):
            _write(root, name, line.encode(), 0o644, owner=0)
    _folder(root, f"home/{AGENT}", 0o755, owner=AGENT_ID)
    for path in sorted(root.glob("etc/skel/.*")):
        if path.is_file() and not path.is_symlink():
            home = f"home/{AGENT}/{path.name}"
            _write(root, home, path.read_bytes(), 0o644, owner=AGENT_ID)


def _uid_taken(root: Path) -> bool:
    passwd = root / "etc/passwd"
    if not passwd.is_file() or passwd.is_symlink():
        return False
    rows = [line.split(":") for line in passwd.read_text("latin-1").splitlines()]
    return any(len(row) > 2 and row[2] == str(AGENT_ID) for row in rows)


def _append(path: Path, line: str) -> None:
    text = path.read_bytes()
    gap = b"\n" if text and not text.endswith(b"\n") else b""
    path.write_bytes(text + gap + line.encode())


def _folder(root: Path, name: str, mode: int, *, owner: int) -> None:
    path = resolve_parent(root, name)
    if path.is_symlink():
        return
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    os.chown(path, owner, owner)


def _write(root: Path, name: str, data: bytes, mode: int, *, owner: int) -> None:
    path = resolve_parent(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    os.chown(path, owner, owner)


def packages(root: Path) -> Mapping[str, str]:
    """Return the exact version of each installed package of a Debian tree.

    Returns:
        Empty where the tree has no package database.
    """
    status = root / "var/lib/dpkg/status"
    if not status.is_file() or status.is_symlink():
        return {}
    stanzas = status.read_text("utf-8", "replace").split("\n\n")
    return dict(sorted(_installed(stanzas)))


def _installed(stanzas: list[str]) -> Iterator[tuple[str, str]]:
    for stanza in stanzas:
        rows = dict(
            line.split(": ", 1)
            for line in stanza.splitlines()
            if ": " in line and not line.startswith(" ")
        )
        if rows.get("Status", "").endswith(" installed"):
            yield rows["Package"], rows["Version"]


def retime_python(root: Path) -> None:
    """Make compiled Python files fit their sources again after times were clamped.

    A compiled file records its source's time; a stale one would be compiled anew at
    each start. Nothing of the image is run for it.
    """
    for compiled in root.rglob("__pycache__/*.pyc"):
        source = compiled.parent.parent / f"{compiled.name.partition('.')[0]}.py"
        if compiled.is_symlink() or source.is_symlink() or not source.is_file():
            continue
        info, times = source.stat(), compiled.stat()
        with compiled.open("r+b") as file:
            head = file.read(16)
            # Magic number, flags (0: by time), time, size: PEP 552.
            if head[4:8] == bytes(4) and head[12:16] == _word(info.st_size):
                file.seek(8)
                file.write(_word(int(info.st_mtime)))
        os.utime(compiled, ns=(times.st_mtime_ns,) * 2)


def _word(number: int) -> bytes:
    return (number & 0xFFFFFFFF).to_bytes(4, "little")


def check_root(root: Path) -> None:
    """Refuse a tree that cannot be a root file system.

    Raises:
        SnapshotError: If it has no ``/bin/sh``.
    """
    shell = resolve_parent(root, "bin/sh")
    if not shell.is_symlink() and not shell.is_file():
        raise SnapshotError(
            "The image has no /bin/sh: it is no root file system.",
            remedy="choose an image of a whole distribution; sandboxes run a shell.",
        )
