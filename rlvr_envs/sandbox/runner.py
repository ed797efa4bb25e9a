"""Runs verifier commands and held-out tests in sandboxes that no agent touched."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from rlvr_envs.confinement import Confinement
from rlvr_envs.errors import SandboxError
from rlvr_envs.records import (
    Evidence,
    Layer,
    Places,
    Snapshot,
    TamperCode,
    digest_of,
)
from rlvr_envs.sandbox.base import (
    AGENT_IDS,
    HARNESS_FOLDER,
    VERIFIER_IDS,
    Bind,
    Process,
    Sandbox,
    SandboxSpec,
)
from rlvr_envs.sandbox.examiner import Died, Job, Outlasted, ZygotePool
from rlvr_envs.sandbox.owners import owner_name
from rlvr_envs.sandbox.perprocess import PerProcess
from rlvr_envs.state import (
    Examination,
    ExaminedTest,
    ExamineRequest,
    RunRequest,
    RunResult,
)

Make = Callable[[SandboxSpec], Sandbox]
"""Makes a sandbox that was not started: a backend's class, say."""

FIXTURES = "/verifier"
SUBMISSION = "/submission"

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",  # noqa: S108 (inside)
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
"""The whole environment of a verifier's command, before the request's own."""

DRAIN_S = 5.0
VERDICT_BYTES = 1 << 20

NO_START = 127
"""Exit status of a command that a final root, as it was left, cannot run."""

POINTS = (FIXTURES, SUBMISSION, HARNESS_FOLDER, "/proc", "/dev", "/sys")
"""Folders of a final root that something is mounted on."""


class _CannotStart(SandboxError):
    """The sandbox stands, but the command's program cannot be executed."""


class PristineRunner:
    """A `Runner` and an `Examiner` for one episode's final state.

    Args:
        make: Makes sandboxes.
        pristine: The image alone: never the task's layer, never the agent's.
        pool: Warm examiners on that image.
        final_root: `FrozenState.root`, for tasks whose answer is system state.
        confinement: Limits of each sandbox.
        places: Where a judgement's folder is made.
    """

    def __init__(
        self,
        make: Make,
        *,
        pristine: Snapshot,
        pool: ZygotePool,
        final_root: Path | None = None,
        confinement: Confinement | None = None,
        places: Places | None = None,
    ) -> None:
        self._make = make
        self._pristine = pristine
        self._pool = pool
        self._final_root = final_root
        self._confinement = confinement or Confinement()
        self._places = places or Places()

    def lodge(self) -> Path:
        """Make a folder for one judgement; the caller removes it."""
        self._places.run.mkdir(parents=True, exist_ok=True)
        prefix = f"{owner_name()}-judge-"
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=self._places.run))
        folder.chmod(0o755)
        return folder

    def run(self, request: RunRequest) -> RunResult:
        """Run one command in a sandbox of its own.

        Raises:
            SandboxError: If the sandbox failed, or the pristine image has no such
                program. That a final root cannot run it is its agent's doing: then
                the exit code is `NO_START`.
        """
        if request.final_root and (obstacle := self._obstacle()):
            return RunResult(NO_START, b"", f"{obstacle} is no folder".encode())
        sandbox = self._make(self._spec(request))
        with contextlib.ExitStack() as stack:
            pipes = [stack.enter_context(_Pipe(size)) for size in _sizes(request)]
            result = self._within(sandbox, request, pipes)
        streams = [pipe.data for pipe in pipes]
        verdict = streams[2] if request.verdict_fd else b""
        told = result.stderr or streams[1]
        return replace(result, stdout=streams[0], stderr=told, verdict=verdict)

    def examine(self, request: ExamineRequest) -> Examination:
        """Run held-out tests; one that takes its examiner down is tried once more.

        Raises:
            SandboxError: If no examiner could be started.
        """
        deadline = time.monotonic() + request.timeout_s
        trouble = ""
        for fresh in (False, True):
            try:
                return self._examined(request, deadline, fresh=fresh)
            except Died as error:
                trouble = f"the examiner was lost with it: {error}"
            except Outlasted:
                return Examination(trouble="it outlasted the time for all tests")
        return Examination(trouble=trouble)

    def _examined(
        self, request: ExamineRequest, deadline: float, *, fresh: bool
    ) -> Examination:
        whole = request.submission == self._final_root
        job = _job(request, deadline, whole=whole)
        with self._pool.lend(fresh=fresh, last=whole or fresh) as zygote:
            if whole:
                bind = Bind(request.submission, SUBMISSION, reowned=True)
                zygote.sandbox.attach(bind)
            return _examination(zygote.examine(job))

    def _spec(self, request: RunRequest) -> SandboxSpec:
        binds = [
            Bind(source, target, reowned=source == self._final_root)
            for source, target in (
                (request.fixtures, FIXTURES),
                (request.submission, SUBMISSION),
            )
            if source is not None
        ]
        snapshot, ids = self._pristine, VERIFIER_IDS
        if request.final_root:
            snapshot, ids = self._final_snapshot(), AGENT_IDS
        return SandboxSpec(
            snapshot,
            confinement=self._confinement,
            hostname="verifier",
            id_base=ids,
            binds=tuple(binds),
        )

    def _final_snapshot(self) -> Snapshot:
        if self._final_root is None:
            raise SandboxError("There is no final root to run on.")
        digest = digest_of(["final", str(self._final_root)])
        return Snapshot((Layer(digest, self._final_root, shifted=True),))

    def _obstacle(self) -> str:
        """Return what stands in the final root where a folder has to be, if anything."""
        for point in POINTS if self._final_root else ():
            for path in (*reversed(PurePosixPath(point).parents[:-1]), point):
                place = f"{self._final_root}{path}"
                if os.path.lexists(place) and not stat.S_ISDIR(os.lstat(place).st_mode):
                    return str(path)
        return ""

    def _within(
        self, sandbox: Sandbox, request: RunRequest, pipes: list[_Pipe]
    ) -> RunResult:
        try:
            sandbox.start()
            process = _spawn(sandbox, request, pipes)
            code = process.wait(request.timeout_s)
        except _CannotStart as error:
            if not request.final_root:
                raise
            return RunResult(NO_START, b"", str(error).encode())
        finally:
            sandbox.destroy()
        return RunResult(-1 if code is None else code, b"", b"", timed_out=code is None)


def _sizes(request: RunRequest) -> list[int]:
    streams = [request.limit_bytes, request.limit_bytes]
    return [*streams, VERDICT_BYTES] if request.verdict_fd else streams


def _spawn(sandbox: Sandbox, request: RunRequest, pipes: list[_Pipe]) -> Process:
    stdin = os.memfd_create("stdin")
    try:
        os.write(stdin, request.stdin)
        os.lseek(stdin, 0, os.SEEK_SET)
        return sandbox.spawn(
            list(request.argv),
            fds=[stdin, *(pipe.inner for pipe in pipes)],
            env={**ENVIRONMENT, **request.env},
            cwd=request.cwd,
            user=request.user,
        )
    except OSError as error:
        raise _CannotStart(
            f"The verifier's command {request.argv[0]!r} cannot start: {error}.",
            remedy="The image needs that program.",
        ) from None
    finally:
        os.close(stdin)
        for pipe in pipes:
            pipe.close_inner()


class _Pipe:
    """A pipe that is emptied by a thread, so that a flood never blocks or grows."""

    def __init__(self, limit_bytes: int) -> None:
        self.data = b""
        self._limit = limit_bytes
        self._outer, self.inner = os.pipe()
        self._thread = threading.Thread(target=self._drain, daemon=True)

    def __enter__(self) -> _Pipe:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close_inner()
        self._thread.join(DRAIN_S)

    def close_inner(self) -> None:
        """Close the side that was handed in; idempotent."""
        if self.inner >= 0:
            os.close(self.inner)
            self.inner = -1

    def _drain(self) -> None:
        kept = bytearray()
        while piece := os.read(self._outer, 1 << 16):
            kept += piece[: max(self._limit - len(kept), 0)]
        os.close(self._outer)
        self.data = bytes(kept)


def _job(request: ExamineRequest, deadline: float, *, whole: bool) -> Job:
    folders, files, links, parts = _packed(
        [(request.fixtures, "verifier")]
        + ([] if whole else [(request.submission, "submission")])
    )
    header = {
        "nonce": secrets.token_hex(16),
        "folders": folders,
        "files": files,
        "symlinks": links,
        "tests": list(request.tests),
        "import_from": request.import_from,
        "links": list(request.links),
        "test_timeout_s": request.test_timeout_s,
        "timeout_s": max(deadline - time.monotonic() - 0.5, 0.1),
    }
    return Job(header, b"".join(parts), deadline)


Packed = tuple[
    list[str], list[tuple[str, int, int]], list[tuple[str, str]], list[bytes]
]


def _packed(trees: list[tuple[Path, str]]) -> Packed:
    """Return folders, files and links of trees that the judge itself laid out."""
    packed: Packed = ([], [], [], [])
    for root, name in trees:
        for path, inside in _walk(root, name):
            _pack(path, inside, packed)
    return packed


def _walk(root: Path, name: str) -> Iterator[tuple[Path, str]]:
    yield root, name
    for entry in sorted(os.scandir(root), key=lambda item: item.name):
        inside = f"{name}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), inside)
        else:
            yield Path(entry.path), inside


def _pack(path: Path, inside: str, packed: Packed) -> None:
    folders, files, links, parts = packed
    if path.is_symlink():
        links.append((inside, str(path.readlink())))
    elif path.is_dir():
        folders.append(inside)
    else:
        data = path.read_bytes()
        mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
        files.append((inside, mode, len(data)))
        parts.append(data)


def _examination(found: Any) -> Examination:
    try:
        tests = [ExaminedTest(*map(str, row)) for row in found.get("tests", ())]
        marks = [
            Evidence(TamperCode(code), str(where), str(detail))
            for code, where, detail in found.get("marks", ())
        ]
        collected = tuple(map(str, found.get("collected", ())))
        troubles = [": ".join(map(str, row)) for row in found.get("troubles", ())]
        fault = str(found.get("fault", ""))
    except (TypeError, ValueError, AttributeError) as error:
        raise Died(f"its verdict is malformed ({error})") from None
    return Examination(
        collected, tuple(tests), tuple(marks), "\n".join(troubles), fault
    )


@dataclass(frozen=True, slots=True)
class _Examined:
    """What warm examiners are for: an image, under a backend."""

    make: Make
    digest: str
    spec: SandboxSpec = field(compare=False)


def _pool(examined: _Examined) -> ZygotePool:
    return ZygotePool(lambda: examined.make(examined.spec))


_pools = PerProcess(_pool)


def shared_pool(make: Make, pristine: Snapshot) -> ZygotePool:
    """Return this process's warm examiners of an image.

    Args:
        make: Makes sandboxes.
        pristine: The image alone.
    """
    spec = SandboxSpec(
        pristine, hostname="verifier", id_base=VERIFIER_IDS, targets=(SUBMISSION,)
    )
    return _pools.get(_Examined(make, pristine.digest, spec))


@atexit.register
def close_pools() -> None:
    """Destroy this process's idle examiners; a forked parent's are left alone."""
    _pools.close()
