"""Held-out pytest files, run by an examiner that the submission cannot reach."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, ClassVar

from typing_extensions import override

from rlvr_envs.errors import VerifierError
from rlvr_envs.records import JsonObject, Verification, VerifierSpec
from rlvr_envs.state import Examination, Examiner, ExamineRequest, FrozenState
from rlvr_envs.verifiers.counting import count
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

_BROKEN = ("SyntaxError", "ImportError", "ModuleNotFoundError", "fixture '")
"""Collection errors that no submission can cause."""


class Pytest(Verifier):
    """Runs tests from the task's verifier folder.

    Options: ``tests`` (files in it), ``test_timeout_s``, ``import_from`` (folder of
    the submission's modules) and ``expected`` (test ids).

    Args:
        spec: Name and options.
        rule: What makes checks of an examination; for tests of this very rule.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "tests": {
                "type": "array",
                "minItems": 1,
                "uniqueItems": True,
                "items": {"type": "string", "pattern": r"^(\w[\w.-]*/)*\w[\w.-]*\.py$"},
            },
            "test_timeout_s": {"type": "number", "exclusiveMinimum": 0},
            "import_from": {"type": "string", "pattern": "^/"},
            "expected": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["tests"],
        "additionalProperties": False,
    }

    def __init__(self, spec: VerifierSpec, *, rule: Callable[..., Any] = count) -> None:
        super().__init__(spec)
        self._rule = rule

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        if not isinstance(context.runner, Examiner):
            raise VerifierError("This environment's runner cannot examine tests.")
        found = context.runner.examine(self._request(context))
        _check_fault(found)
        expected = self.options.get("expected", ())
        checks = self._rule(found, expected, name=self.spec.name)
        return Findings(tuple(checks), found.evidence)

    def _request(self, context: Context) -> ExamineRequest:
        verification = context.verification
        whole = verification.mode == "system"
        return ExamineRequest(
            fixtures=context.fixtures,
            submission=context.submission,
            tests=tuple(self.options["tests"]),
            import_from=self.options.get("import_from", import_root(verification)),
            links=() if whole else verification.artifacts,
            test_timeout_s=float(self.options.get("test_timeout_s", 10.0)),
            timeout_s=context.left_s(),
        )


def import_root(verification: Verification) -> str:
    """Return the folder that all artifacts share: where modules are imported from."""
    parents = [
        item if "." not in PurePosixPath(item).name else str(PurePosixPath(item).parent)
        for item in verification.artifacts
    ]
    if not parents:
        return "/"
    shared = PurePosixPath(parents[0])
    while not all(PurePosixPath(item).is_relative_to(shared) for item in parents):
        shared = shared.parent
    return str(shared)


def _check_fault(found: Examination) -> None:
    """Tell a broken test from a failed one."""
    if found.fault:
        raise VerifierError(f"The examiner failed: {found.fault}")
    if not found.tests and any(word in found.trouble for word in _BROKEN):
        raise VerifierError(f"The held-out tests cannot be read: {found.trouble}")
