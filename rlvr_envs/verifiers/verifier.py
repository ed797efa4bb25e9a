"""The contract that every verifier keeps.

A verifier reads a frozen state and says which invariants held. It is pure: it
cannot reach a sandbox, a process or a network; one that must run something is
handed a runner. What the submission can cause (a missing file, a crash, a hang, a
forgery) is a failed check, with evidence where it was tampering; an exception means
that the judge itself is broken.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from rlvr_envs.records import Check, Evidence, JsonObject, Verification, VerifierSpec
from rlvr_envs.state import FrozenState, Runner
from rlvr_envs.verifiers import opening


@dataclass(frozen=True, slots=True)
class Findings:
    """What one verifier found.

    Attributes:
        suspicions: Evidence that counts only beside a failed check: where all that
            was asked for is there, it explains nothing.
        reward: What a rubric pays, in [0, 1], whether or not its checks hold; ``None``
            of a verifier for which all or nothing is paid.
        penalty: What the rubric took off for an untidy path, in reward units.
        collateral: What it found changed beyond what was asked.
        details: Plain data of a rubric with more to say, by the kind's name.
    """

    checks: tuple[Check, ...]
    evidence: tuple[Evidence, ...] = ()
    suspicions: tuple[Evidence, ...] = ()
    reward: float | None = None
    penalty: float = 0.0
    collateral: tuple[str, ...] = ()
    details: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """What a verifier may use beside the frozen state.

    Attributes:
        submission: Host folder; the artifacts stand beneath it at their own absolute
            paths, or it is the whole final root.
        fixtures: Host folder with the pinned verifier files and ``hidden.json``.
        hidden: Hidden data of the instance.
        runner: Runs commands in pristine sandboxes.
        deadline: When all checks must have ended, on `time.monotonic`.
    """

    verification: Verification
    submission: Path
    fixtures: Path
    hidden: Mapping[str, Any]
    runner: Runner
    deadline: float

    def left_s(self) -> float:
        """Return the seconds that are left for checks, at least 0."""
        return max(self.deadline - time.monotonic(), 0.0)

    def plain(self, option: Any) -> Any:
        """Return an option with every ``{hidden: ...}`` in it, however deep, replaced.

        Raises:
            KeyError: If the hidden data has no such key.
        """
        value = self.value(option)
        if isinstance(value, Mapping):
            return {key: self.plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(item) for item in value]
        return value

    def value(self, option: Any) -> Any:
        """Return an option's value: itself, or what ``{hidden: dotted.key}`` names.

        Raises:
            KeyError: If the hidden data has no such key.
        """
        if not (isinstance(option, Mapping) and set(option) == {"hidden"}):
            return option
        value: Any = self.hidden
        for part in str(option["hidden"]).split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
        return value

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        """Return the content of a submitted file.

        Args:
            path: Absolute, as it was inside.
            limit_bytes: Larger files are refused.

        Raises:
            opening.Refused: If it is missing, no regular file, or too large.
        """
        return opening.read(self.submission, path, limit_bytes=limit_bytes)


class Verifier(ABC):
    """One check of a task, made from its options."""

    schema: ClassVar[JsonObject]
    """JSON Schema of the options."""

    def __init__(self, spec: VerifierSpec) -> None:
        self.spec = spec
        self.options = spec.options

    @classmethod
    def flaw(cls, _options: JsonObject) -> str:
        """Return what is wrong with options that fit the schema; empty if nothing."""
        return ""

    @abstractmethod
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        """Read the state and say what held."""

    def check(self, reason: str = "") -> Check:
        """Return this verifier's check; an empty reason means that it held.

        A reason may quote what the agent wrote; half characters in it are escaped.
        """
        told = reason.encode(errors="backslashreplace").decode()
        return Check(self.spec.name, not reason, told)
