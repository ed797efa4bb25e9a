"""The judge: from a frozen state to an outcome.

Manifest, ingest, diff audit, checks, count. Each of these is a collaborator that is
handed in, so that a test can leave one out and see what gets through.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlvr_envs.errors import VerifierError, boundary
from rlvr_envs.records import (
    Check,
    Evidence,
    Outcome,
    Status,
    TamperCode,
    Verification,
    VerifierSpec,
)
from rlvr_envs.state import FrozenState, Lodges, Runner
from rlvr_envs.tasks.instances import hidden_json
from rlvr_envs.tasks.task import Instance
from rlvr_envs.verifiers import database, decoys, guards, ingest, kinds, manifest
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

HIDDEN_FILE = "hidden.json"


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges frozen states.

    Attributes:
        pin: Copies a verifier's files if they are what was pinned.
        take: Copies the declared artifacts.
        audit: Holds the changes against the declared write set.
        audit_database: The same for an episode in a database.
        held: Finds decoys in what was taken.
        kinds: Verifiers by name.
        staging: Where a judgement's folder is made; by default where its runner says.
    """

    pin: Callable[[Path, Mapping[str, str], Path], None] = manifest.pin
    take: Callable[..., ingest.Ingested] = ingest.ingest
    audit: Callable[..., guards.Audit] = guards.audit
    audit_database: Callable[[FrozenState, Verification], guards.Audit] = database.audit
    held: Callable[..., list[Evidence]] = decoys.held
    kinds: Mapping[str, type[Verifier]] = field(default_factory=lambda: kinds.KINDS)
    staging: Path | None = None

    def judge(self, frozen: FrozenState, instance: Instance, runner: Runner) -> Outcome:
        """Return the outcome of an episode.

        Args:
            frozen: Nothing in it runs or changes any more.
            instance: What was played.
            runner: Runs commands and tests in pristine sandboxes.

        Raises:
            VerifierError: If the judge itself failed.
            SandboxError: If a verifier's sandbox failed.
        """
        with (
            boundary(VerifierError, "judging"),
            _folder(runner, self.staging) as folder,
        ):
            return self._judged(frozen, instance, runner, folder)

    def _judged(
        self, frozen: FrozenState, instance: Instance, runner: Runner, folder: Path
    ) -> Outcome:
        verification = instance.task.verification
        deadline = time.monotonic() + verification.timeout_s
        fixtures, submission = folder / "verifier", folder / "submission"
        fixtures.mkdir()
        submission.mkdir()
        try:
            self.pin(instance.task.folder / "verifier", verification.manifest, fixtures)
        except manifest.Altered as error:
            return _altered(str(error))
        (fixtures / HIDDEN_FILE).write_bytes(hidden_json(instance.recipe))
        taken = self._taken(frozen, instance, submission)
        audited = self._audited(frozen, instance)
        context = Context(
            verification=verification,
            submission=submission if verification.mode == "artifacts" else frozen.root,
            fixtures=fixtures,
            hidden=instance.recipe.hidden,
            runner=runner,
            deadline=deadline,
        )
        return _outcome([taken, *self._verified(frozen, context), audited])

    def _audited(self, frozen: FrozenState, instance: Instance) -> Findings:
        verification = instance.task.verification
        if verification.mode == "database":
            audit = self.audit_database(frozen, verification)
        else:
            audit = self.audit(frozen, verification, decoys.decoys_of(instance.digest))
        return Findings(
            audit.checks, audit.evidence, audit.suspicions, collateral=audit.collateral
        )

    def _taken(
        self, frozen: FrozenState, instance: Instance, submission: Path
    ) -> Findings:
        verification = instance.task.verification
        if verification.mode != "artifacts":
            return Findings(())
        wanted = [
            spec.options["path"]
            for spec in verification.checks
            if "path" in spec.options
        ]
        taken = self.take(frozen, verification.artifacts, submission, wanted=wanted)
        found = self.held(submission, decoys.decoys_of(instance.digest))
        return Findings(
            tuple(taken.checks), (*taken.evidence, *found), tuple(taken.suspicions)
        )

    def _verified(self, frozen: FrozenState, context: Context) -> Iterator[Findings]:
        for spec in context.verification.checks:
            if context.left_s() <= 0:
                late = Check(spec.name, passed=False, reason="no time was left for it")
                yield Findings((late,))
            else:
                yield self._one(spec, frozen, context)

    def _one(
        self, spec: VerifierSpec, frozen: FrozenState, context: Context
    ) -> Findings:
        with boundary(VerifierError, f"verifying {spec.name!r}"):
            return kinds.make(spec, self.kinds).verify(frozen, context)


def judge(frozen: FrozenState, instance: Instance, runner: Runner) -> Outcome:
    """Judge with everything as it should be; see `Judge.judge`."""
    return Judge().judge(frozen, instance, runner)


def _altered(problem: str) -> Outcome:
    evidence = Evidence(TamperCode.HARNESS_TAMPER, "verifier", problem)
    return Outcome(Status.TAMPERED, 0.0, evidence=(evidence,), reason=problem)


def _outcome(findings: Sequence[Findings]) -> Outcome:
    checks = tuple(check for item in findings for check in item.checks)
    failed = [check for check in checks if not check.passed]
    proofs = [proof for item in findings for proof in item.evidence]
    if failed:
        proofs += [proof for item in findings for proof in item.suspicions]
    evidence = tuple(dict.fromkeys(proofs))
    if evidence:
        first = evidence[0]
        status, reason = Status.TAMPERED, f"{first.where}: {first.detail}"
    elif failed:
        status, reason = Status.FAILED, f"{failed[0].name}: {failed[0].reason}"
    else:
        status, reason = Status.PASSED, ""
    return Outcome(
        status,
        0.0 if evidence else _reward(findings),
        checks=checks,
        evidence=evidence,
        collateral=tuple(dict.fromkeys(p for f in findings for p in f.collateral)),
        efficiency_penalty=max((item.penalty for item in findings), default=0.0),
        reason=reason,
        details={key: said for f in findings for key, said in f.details.items()},
    )


def _reward(findings: Sequence[Findings]) -> float:
    """Return what a rubric pays, or all or nothing; a failed check beside it, nothing.

    A rubric prices collateral itself, so that the audit's word on it costs no more.
    """
    rubrics = [item.reward for item in findings if item.reward is not None]
    hard = [item for item in findings if item.reward is None]
    priced = {database.COLLATERAL} if rubrics else set()
    failed = any(
        not check.passed and check.name not in priced
        for item in hard
        for check in item.checks
    )
    return 0.0 if failed else min(rubrics, default=1.0)


@contextlib.contextmanager
def _folder(runner: Runner, staging: Path | None) -> Iterator[Path]:
    if staging is None and isinstance(runner, Lodges):
        folder = runner.lodge()
    else:
        if staging is not None:
            staging.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="judge-", dir=staging))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
