"""The final state of an episode, and the protocols by which rooms speak of it.

A wrapper reaches an environment, and a judge reaches a runner, through these
protocols alone; nobody above has to import anybody below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rlvr_envs.records import Event, Evidence, Snapshot


@dataclass(frozen=True, slots=True)
class Change:
    """A path that the episode changed against its snapshot.

    Attributes:
        path: Absolute, as inside the sandbox, surrogate-escaped.
        kind: ``added``, ``modified``, ``removed`` or ``metadata``.
        type: ``file``, ``dir``, ``link``, ``fifo``, ``socket``, ``device``.
    """

    path: str
    kind: str
    type: str


@dataclass(frozen=True, slots=True)
class FrozenState:
    """What an episode left: nothing runs any more, nothing can change it.

    Attributes:
        root: Host folder with the whole final root, mounted read-only. Names in it
            were chosen by the agent: open them beneath the root, never by path.
        changes: What differs from the snapshot, sorted by path.
        survivors: Commands that were alive at the freeze (killed since), sorted.
        facts: Modality-specific plain data that was read outside the sandbox.
        id_base: Host uid and gid that stand for 0 inside, as `root` shows them.
    """

    root: Path
    snapshot: Snapshot
    changes: tuple[Change, ...] = ()
    survivors: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    id_base: int = 100_000


@dataclass(frozen=True, slots=True)
class StateDiff:
    """How a living world differs from its snapshot, as the harness reads it.

    Attributes:
        changes: Files, rows, services, storage keys: whatever the modality has.
        collateral: Those of them outside the declared write set, sorted.
        facts: Modality-specific plain data, such as a digest or a row's values.
    """

    changes: tuple[Change, ...] = ()
    collateral: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A command to run in a pristine sandbox, on behalf of a verifier.

    Attributes:
        fixtures: Host folder bound read-only at ``/verifier``; ``None`` for none.
        submission: Host folder bound read-only at ``/submission``.
        final_root: Run on a throwaway copy of the episode's final root in place
            of the pristine image (only for tasks whose answer is system state).
        verdict_fd: Whether descriptor 3 is a pipe whose bytes come back.
    """

    argv: Sequence[str]
    cwd: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    fixtures: Path | None = None
    submission: Path | None = None
    final_root: bool = False
    user: int = 1000
    timeout_s: float = 30.0
    limit_bytes: int = 1 << 20
    verdict_fd: bool = False


@dataclass(frozen=True, slots=True)
class RunResult:
    """What the command did; the exit code is -1 if it timed out."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    verdict: bytes = b""


class Runner(Protocol):
    """Runs verifier commands in sandboxes that no agent ever touched."""

    def run(self, request: RunRequest) -> RunResult:
        """Run one command.

        Raises:
            SandboxError: If the sandbox failed (not if the command did).
        """


@dataclass(frozen=True, slots=True)
class ExamineRequest:
    """Held-out tests to run against a submission, by a warm examiner.

    Attributes:
        fixtures: Host folder with the pinned tests; only they can read it.
        submission: Host folder with the artifacts, at their own absolute paths.
        tests: Files in `fixtures`.
        import_from: Absolute folder, inside the submission, of its modules.
        links: Artifacts that shall be reachable at their own absolute paths too.
        test_timeout_s: Wall time of one test.
        timeout_s: Wall time of all.
    """

    fixtures: Path
    submission: Path
    tests: tuple[str, ...]
    import_from: str = "/"
    links: tuple[str, ...] = ()
    test_timeout_s: float = 10.0
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class ExaminedTest:
    """One test that ran; anything but ``passed`` is no pass."""

    id: str
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """What an examiner found.

    Attributes:
        collected: Ids of the pinned tests, read before any submitted code ran.
        tests: Those that ran, in order.
        evidence: Tampering that left a trace while they ran.
        trouble: Why it did not come to its end; empty if it did.
        fault: What is wrong with the tests themselves; empty if nothing is.
    """

    collected: tuple[str, ...] = ()
    tests: tuple[ExaminedTest, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    trouble: str = ""
    fault: str = ""


@runtime_checkable
class Examiner(Protocol):
    """Runs held-out tests; the submission's code runs in processes of its own."""

    def examine(self, request: ExamineRequest) -> Examination:
        """Run the tests.

        Raises:
            SandboxError: If the sandbox failed (not if the submission did).
        """


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a grader's query found.

    Attributes:
        rows: Column name to value: int, float, str, bool, `Decimal`, date or
            ``None``, as the database types them; floats may be NaN.
        problem: Why it did not run to its end on this state; empty if it did.
    """

    rows: tuple[Mapping[str, Any], ...] = ()
    problem: str = ""


@runtime_checkable
class Queries(Protocol):
    """A runner that reads the final database as the grader's own role."""

    def query(self, statement: str, values: Mapping[str, Any]) -> QueryResult:
        """Run one reading statement.

        Args:
            statement: Qualified names; a value of `values` stands as ``%(name)s``.
            values: Plain data.

        Raises:
            SandboxError: If the database is gone.
            VerifierError: If the statement is wrong on the untouched database too.
        """


@runtime_checkable
class Lodges(Protocol):
    """A runner that gives each judgement a folder of its own."""

    def lodge(self) -> Path:
        """Make an empty host folder; the caller removes it.

        It is named after its owner, so that a reaper knows whose it was.
        """


@runtime_checkable
class Judgeable(Protocol):
    """What `FrozenStateVerify` needs of an environment."""

    @property
    def instance(self) -> Any:
        """The task instance of the living episode."""

    def freeze(self) -> FrozenState:
        """Stop, kill and count every process, then return the final state."""

    def runner(self) -> Runner:
        """Return what the verifiers of this episode may run things with."""


@runtime_checkable
class Diffable(Protocol):
    """What `PotentialShaping` needs of an environment."""

    def diff(self) -> StateDiff:
        """Read the living state without the agent noticing.

        Raises:
            WorldError: If it cannot be read; the episode is over then.
        """


@runtime_checkable
class Spools(Protocol):
    """What `ClipObservation` needs of an environment."""

    def spool(self) -> str:
        """Show the last call's raw output to the agent as a read-only file.

        Returns:
            Its path inside the sandbox; empty where it could not be kept.
        """


@runtime_checkable
class Traceable(Protocol):
    """What `RecordTrajectory` needs of an environment."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Digests, seeds, task and instance of the living episode; plain data."""

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds by name of the last reset or step; not deterministic."""


@dataclass(frozen=True, slots=True)
class Census:
    """What was found when a sandbox was killed.

    Attributes:
        survivors: Commands alive at the freeze other than the harness's own.
        remaining: Processes alive afterwards; verification needs 0.
    """

    survivors: tuple[str, ...]
    remaining: int
    events: tuple[Event, ...] = ()
