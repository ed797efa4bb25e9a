"""What the conformance checks are made of."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rlvr_envs.confinement import Confinement, Limits
from rlvr_envs.records import Places, Snapshot
from rlvr_envs.sandbox.base import Capability, Sandbox, SandboxSpec

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "LANG": "C.UTF-8",
    "HOME": "/tmp",  # noqa: S108 - inside
}
MIB = 1 << 20


class NotConforming(AssertionError):
    """A backend does not keep the contract."""


def expect(condition: object, message: str) -> None:
    """Raise `NotConforming` with the message unless the condition is true."""
    if not condition:
        raise NotConforming(message)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did; the status is None if it did not end in time."""

    status: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Bench:
    """A backend to check, and what to start its sandboxes from.

    Attributes:
        snapshot: Debian with bash, coreutils, python3, procps, util-linux.
    """

    backend: type[Sandbox]
    snapshot: Snapshot
    places: Places

    def spec(self, **changes: object) -> SandboxSpec:
        """Return a spec for the snapshot; ``changes`` are its fields."""
        return SandboxSpec(self.snapshot, **changes)  # type: ignore[arg-type]  # fields

    @contextmanager
    def sandbox(self, spec: SandboxSpec | None = None) -> Iterator[Sandbox]:
        """Start a sandbox and destroy it afterwards."""
        with self.backend(spec or self.spec(), self.places) as started:
            yield started

    def limited(self, **limits: int) -> SandboxSpec:
        """Return a spec with limits that differ from the usual ones."""
        return self.spec(confinement=Confinement(limits=Limits(**limits)))


@dataclass(frozen=True, slots=True)
class Check:
    """One promise of the contract.

    Attributes:
        name: The promise.
        run: Raises `NotConforming` where it is broken.
        needs: Capabilities without which it says nothing.
    """

    name: str
    run: Callable[[Bench], None]
    needs: frozenset[Capability] = field(default_factory=frozenset)

    def applies(self, backend: type[Sandbox]) -> bool:
        """Whether a backend has what the check needs."""
        return self.needs <= backend.capabilities()


def promise(
    into: list[Check], *needs: Capability
) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    """Collect a function as a check under its own name."""

    def collect(run: Callable[[Bench], None]) -> Callable[[Bench], None]:
        name = run.__name__.replace("_", " ").strip()
        into.append(Check(name, run, frozenset(needs)))
        return run

    return collect


def run(
    sandbox: Sandbox,
    command: str,
    *,
    user: int = 1000,
    env: Mapping[str, str] | None = None,
    cwd: str = "/",
    timeout_s: float = 30.0,
) -> Ran:
    """Run a bash command; its output is whatever it printed until it ended."""
    argv = ["bash", "--norc", "--noprofile", "-c", command]
    with collecting() as (fds, text):
        process = sandbox.spawn(
            argv, fds=fds, env=env or ENVIRONMENT, cwd=cwd, user=user
        )
        status = process.wait(timeout_s)
        if status is None:
            process.kill()
            process.wait(timeout_s)
        return Ran(status, text())


@contextmanager
def collecting() -> Iterator[tuple[tuple[int, int, int], Callable[[], str]]]:
    """Yield descriptors for 0, 1, 2 and a function that returns what was printed.

    Output goes to memory that nobody waits for, so a process that lives on and
    holds it open stops nothing.
    """
    empty = os.open("/dev/null", os.O_RDONLY)
    output = os.memfd_create("output")
    try:
        yield (empty, output, output), lambda: _read(output)
    finally:
        os.close(empty)
        os.close(output)


def _read(fd: int) -> str:
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0).decode(errors="replace")


def can_start(sandbox: Sandbox) -> bool:
    """Whether a sandbox has room for one more process just now."""
    try:
        return run(sandbox, "true", timeout_s=1).status == 0
    except OSError:
        return False


def python(code: str) -> str:
    """Return a bash command that runs Python code."""
    return f"python3 -S - <<'END_OF_PYTHON'\n{code}\nEND_OF_PYTHON"


def until(
    condition: Callable[[], object], message: str, *, within_s: float = 10.0
) -> None:
    """Wait for a condition; `NotConforming` if it does not come true."""
    deadline = time.monotonic() + within_s
    while not condition():
        expect(time.monotonic() < deadline, message)
        time.sleep(0.005)
