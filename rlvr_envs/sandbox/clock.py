"""Frozen time and pinned randomness: a read-only layer, and two files a turn.

Programs load two shared objects through ``/etc/ld.so.preload``, which no cleared
environment undoes: our own ``libpin.so`` and libfaketime, taken as a file from the
wheel of that name (GPL-2.0; it runs inside sandboxes only and is linked into
nothing of ours). Both read what the host puts into the harness folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from rlvr_envs.confinement import ClockRule
from rlvr_envs.errors import MissingRequirement, SandboxError, boundary
from rlvr_envs.records import Layer, Places, digest_of
from rlvr_envs.sandbox.base import HARNESS_FOLDER
from rlvr_envs.snapshots.locking import partial, publish

CLOCK_FILE = "clock"
SEED_FILE = "seed"
INSIDE = "/usr/lib/rlvr"
_FAKETIME = "vendor/libfaketime/src/libfaketime.so.1"
_PIN = tuple(Path(__file__).with_name(name) for name in ("pin.c", "pin_stat.c"))
_FLAGS = ("-O2", "-shared", "-fPIC")

ENVIRONMENT = {
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "DONT_FAKE_MONOTONIC": "1",
    "FAKETIME_NO_CACHE": "1",
    "FAKETIME_FMT": "%s",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
}
"""What a session adds to its environment when a clock rule is set."""


def clock_layer(places: Places) -> Layer:
    """Return the layer that pins clock and randomness; built once per store.

    Raises:
        MissingRequirement: If the compiler or the libfaketime wheel is missing.
        SandboxError: If the compiler fails or the store cannot be written.
    """
    faketime, digest = _pinned()
    folder = places.store / "clock" / digest.removeprefix("sha256:")
    if not folder.is_dir():
        doing = f"building the clock layer in {places.store}"
        with boundary(SandboxError, doing), partial(places.store) as work:
            _build(work / "layer", faketime)
            publish(work / "layer", folder)
    return Layer(digest, folder)


def clock_line(rule: ClockRule, turn: int) -> bytes:
    """Return what libfaketime reads at a turn: start time and increment a call."""
    start = f"{rule.at_turn(turn):.6f}".rstrip("0").rstrip(".")
    return f"@{start} i{rule.increment_s:g}\n".encode()


def seed_line(rule: ClockRule, *parts: str | int) -> bytes:
    """Return what libpin reads once: a seed and the epoch.

    Args:
        rule: The clock of the episode.
        parts: What names the episode; the same parts give the same seed.
    """
    digest = hashlib.sha256("\0".join(str(part) for part in parts).encode()).digest()
    return b"%d %d\n" % (int.from_bytes(digest[:8], "big") >> 1, rule.at_turn(0))


@cache
def _pinned() -> tuple[Path, str]:
    """Return libfaketime's file and the layer's digest; read once a process."""
    faketime = _faketime()
    sources = [path.read_bytes() for path in _PIN]
    code = [*sources, faketime.read_bytes()]
    return faketime, digest_of([*code, *_FLAGS, HARNESS_FOLDER])


def _faketime() -> Path:
    spec = importlib.util.find_spec("libfaketime")
    origin = Path(spec.origin).parent / _FAKETIME if spec and spec.origin else None
    if origin is None or not origin.is_file():
        raise MissingRequirement(
            "The shared object of libfaketime is not installed.",
            remedy="pip install 'rlvr-envs[terminal]' (or libfaketime>=3).",
        )
    return origin


def _build(fresh: Path, faketime: Path) -> None:
    fresh.mkdir()
    fresh.chmod(0o755)
    libraries = fresh / INSIDE.lstrip("/")
    libraries.mkdir(parents=True)
    shutil.copyfile(faketime, libraries / "libfaketime.so.1")
    _compile(libraries / "libpin.so")
    etc = fresh / "etc"
    etc.mkdir()
    names = [f"{INSIDE}/libfaketime.so.1", f"{INSIDE}/libpin.so"]
    (etc / "ld.so.preload").write_text("\n".join(names) + "\n")
    (etc / "faketimerc").symlink_to(f"{HARNESS_FOLDER}/{CLOCK_FILE}")
    (fresh / HARNESS_FOLDER.lstrip("/")).mkdir(parents=True)  # a mount point ready made
    for path in [fresh, *sorted(fresh.rglob("*"))]:
        os.utime(path, (0, 0), follow_symlinks=False)


def _compile(target: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise MissingRequirement(
            "No C compiler was found.", remedy="apt-get install gcc libc6-dev."
        )
    argv = [compiler, *_FLAGS, "-o", str(target), *map(str, _PIN)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise SandboxError(f"{compiler} failed on libpin: {done.stderr[-500:]}")
