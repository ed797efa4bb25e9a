"""Warm examiners: pytest imported once in a pristine sandbox, forked for each job.

A zygote serves one job at a time and is cleaned after it. One that does not come
clean, dies, or has served its share is destroyed; the next job starts another.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import socket
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox import inside
from rlvr_envs.sandbox.base import Sandbox
from rlvr_envs.sandbox.inside import plain

ARCHIVE = "examiner.zip"
START_S = 30.0
CLEAN_S = 10.0
PACKAGES = ("rlvr_envs", "rlvr_envs/sandbox")

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
"""Whole environment of a zygote: written by us, so Python may read it (no ``-I``)."""

PYTHON = ("/usr/bin/python3", "-s", "-P", "-B")


class Outlasted(Exception):
    """The job did not end in time."""


class Died(Exception):
    """The zygote or its examiner ended without a verdict."""


@cache
def archive() -> bytes:
    """Return the program that runs inside, as one archive that Python can run."""
    folder = Path(inside.__file__).parent
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as bundle:
        for package in PACKAGES:
            bundle.writestr(f"{package}/__init__.py", "")
        for file in sorted(folder.glob("*.py")):
            name = file.name
            place = "" if name == "__main__.py" else "rlvr_envs/sandbox/inside/"
            bundle.writestr(f"{place}{name}", file.read_bytes())
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class Job:
    """What an examiner is told.

    Attributes:
        header: Sent first; plain data, with the nonce.
        body: The bytes of all files, one after the other.
        deadline: On `time.monotonic`.
    """

    header: Mapping[str, Any]
    body: bytes
    deadline: float


class Zygote:
    """One sandbox with one zygote in it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.jobs = 0
        self._control, self._theirs = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )
        self._complaints = os.memfd_create("complaints")
        self._dirty = False

    def start(self) -> Self:
        """Start the sandbox, and the zygote without waiting for it.

        Raises:
            SandboxError: If that cannot be.
        """
        try:
            self.sandbox.start()
            path = self.sandbox.put(ARCHIVE, archive())
            with Path(os.devnull).open("r+b") as null:
                streams = [null.fileno(), null.fileno(), self._complaints]
                self.sandbox.spawn(
                    [*PYTHON, path],
                    fds=[*streams, self._theirs.fileno()],
                    env=ENVIRONMENT,
                    user=0,
                )
        except BaseException:
            self.close()
            raise
        self._theirs.close()
        self._dirty = True
        return self

    def examine(self, job: Job) -> Any:
        """Have one job done.

        Returns:
            What the examiner wrote; its nonce was compared.

        Raises:
            Outlasted: If it was not done by its deadline.
            Died: If the examiner or the zygote was lost.
            SandboxError: If the zygote never started.
        """
        self._settle()
        self._dirty = True
        self.jobs += 1
        there, payload = os.pipe()
        verdict, back = os.pipe()
        with _closing(payload, verdict):
            with _closing(there, back):
                self._send([there, back])
            raw = _exchange(payload, verdict, job)
        if not raw:
            raise Died(f"no verdict came: {self._complained()}")
        return _checked(raw, job)

    def _send(self, fds: list[int]) -> None:
        try:
            socket.send_fds(self._control, [b"job"], fds)
        except OSError as error:
            raise Died(f"the zygote is gone ({error})") from None

    def clean(self) -> bool:
        """Wait for the zygote to tidy up; return whether it may serve again."""
        if not self._dirty:
            return True
        try:
            return self._await(CLEAN_S) == b"clean"
        except OSError:
            return False
        finally:
            self._dirty = False

    def _settle(self) -> None:
        """Wait for the zygote to be ready."""
        if self._dirty and self.jobs == 0:
            if self._await(START_S) != b"ready":
                raise SandboxError(
                    f"The verifier's Python did not start: {self._complained()}.",
                    remedy="The image needs python3 and python3-pytest.",
                )
            self._dirty = False

    def _complained(self) -> str:
        """Return the end of what the zygote wrote to its standard error."""
        size = os.fstat(self._complaints).st_size
        return os.pread(self._complaints, 500, max(size - 500, 0)).decode(
            errors="replace"
        )

    def _await(self, timeout_s: float) -> bytes:
        self._control.settimeout(timeout_s)
        return self._control.recv(64)

    def close(self) -> None:
        """Destroy the sandbox; idempotent."""
        if self._control.fileno() >= 0:
            os.close(self._complaints)
        self._control.close()
        self._theirs.close()
        self.sandbox.destroy()


class ZygotePool:
    """Zygotes of one image, lent to one job each; one trainer process has one.

    Args:
        make: Makes a pristine sandbox that was not started.
        renew_after: Jobs that a zygote serves.
        keep: Idle zygotes that are kept.
    """

    def __init__(
        self, make: Callable[[], Sandbox], *, renew_after: int = 500, keep: int = 2
    ) -> None:
        self._make = make
        self._renew_after = renew_after
        self._keep = keep
        self._idle: list[Zygote] = []
        self._lock = threading.Lock()
        self._closed = False
        self.started = 0

    @contextlib.contextmanager
    def lend(self, *, fresh: bool = False, last: bool = False) -> Iterator[Zygote]:
        """Lend a zygote; it comes back when it is clean.

        Args:
            fresh: One that no job was ever done in.
            last: Destroy it afterwards.
        """
        zygote = self._fresh() if fresh else self._take()
        kept = False
        try:
            yield zygote
            kept = not last and zygote.jobs < self._renew_after
        finally:
            if kept:
                self._give_back(zygote)
            else:
                zygote.close()

    def close(self) -> None:
        """Destroy all idle zygotes; those on loan follow when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for zygote in idle:
            zygote.close()

    def _take(self) -> Zygote:
        while True:
            with self._lock:
                zygote = self._idle.pop() if self._idle else None
            if zygote is None:
                return self._fresh()
            if zygote.jobs == 0 or zygote.clean():
                return zygote
            zygote.close()

    def _fresh(self) -> Zygote:
        self.started += 1
        return Zygote(self._make()).start()

    def _give_back(self, zygote: Zygote) -> None:
        with self._lock:
            room = len(self._idle) < self._keep and not self._closed
            if room:
                self._idle.append(zygote)
        if not room:
            zygote.close()


@contextlib.contextmanager
def _closing(*fds: int) -> Iterator[None]:
    try:
        yield
    finally:
        for fd in fds:
            os.close(fd)


@dataclass(slots=True)
class _Exchange:
    """The job on its way in, the verdict on its way out."""

    left: memoryview
    got: bytearray = field(default_factory=bytearray)
    ended: bool = False


def _exchange(payload: int, verdict: int, job: Job) -> bytes:
    raw = json.dumps(dict(job.header), separators=(",", ":")).encode()
    state = _Exchange(memoryview(len(raw).to_bytes(4, "big") + raw + job.body))
    poller = select.poll()
    os.set_blocking(payload, False)
    poller.register(payload, select.POLLOUT)
    poller.register(verdict, select.POLLIN)
    while not state.ended:
        left_ms = (job.deadline - time.monotonic()) * 1000
        ready = poller.poll(left_ms) if left_ms > 0 else []
        if not ready:
            raise Outlasted
        for fd, _event in ready:
            if fd == verdict:
                _read(verdict, state)
            elif not _write(payload, state):
                poller.unregister(payload)
    return bytes(state.got)


def _read(verdict: int, state: _Exchange) -> None:
    piece = os.read(verdict, 1 << 16)
    state.got += piece
    state.ended = not piece
    if len(state.got) > plain.MAX_BYTES + 4:
        raise Died("its verdict is too large")


def _write(payload: int, state: _Exchange) -> bool:
    try:
        state.left = state.left[os.write(payload, state.left[: 1 << 18]) :]
    except BrokenPipeError:
        return False
    return bool(state.left)


def _checked(raw: bytes, job: Job) -> Any:
    if len(raw) < 4 or len(raw) != 4 + int.from_bytes(raw[:4], "big"):
        raise Died("the examiner ended without a verdict")
    found = plain.loads(raw[4:])
    if found.get("nonce") != job.header["nonce"]:
        raise Died("the verdict does not carry the job's nonce")
    return found
