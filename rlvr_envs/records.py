"""The nouns of the house: what passes between its rooms.

Records are frozen, hold plain data only, and know nothing but each other.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Real
from pathlib import Path
from typing import Any

from rlvr_envs.errors import WrongArgument

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are kept on the host.

    Attributes:
        store: Images, layers and the compiled launcher; survives a reboot.
        run: What belongs to living sandboxes; swept by the orphan reaper.
    """

    store: Path = Path("/var/lib/rlvr-envs")
    run: Path = Path("/run/rlvr-envs")


class ToolCategory(StrEnum):
    """What a tool does to the world; path rules follow from it."""

    OBSERVE = "observe"
    MUTATE = "mutate"
    VERIFY = "verify"
    TERMINAL = "terminal"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the agent sees it.

    Attributes:
        parameters: JSON Schema of an object; ``additionalProperties`` is false.
    """

    name: str
    description: str
    parameters: JsonObject
    category: ToolCategory

    def openai(self) -> dict[str, Any]:
        """Return the entry for the ``tools`` list of a chat-completions request."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One action: a tool's name and its arguments."""

    name: str
    arguments: JsonObject = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the call as the mapping that an action may be."""
        return {"name": self.name, "arguments": dict(self.arguments)}


class ErrorKind(StrEnum):
    """Why a call did not do what it asked; `NONE` where it did."""

    NONE = ""
    MALFORMED_CALL = "malformed_call"
    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    NONZERO_EXIT = "nonzero_exit"
    TIMEOUT = "timeout"
    SHELL_LOST = "shell_lost"
    TOOL_ERROR = "tool_error"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the harness saw and that no tool reported.

    Attributes:
        kind: ``egress``, ``dns``, ``http``, ``survivor``, ``shell_restarted``, ...
        count: How often in this step, at least 1.
        detail: Deterministic words; empty if there is nothing to add.
    """

    kind: str
    count: int = 1
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data for ``info["events"]``."""
        return {"kind": self.kind, "count": self.count, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call gave back.

    Attributes:
        text: The observation, printable, not yet clipped.
        exit_code: Exit status, or -1 where none exists.
        limit: Which limit ended the call: ``""``, ``"step"`` or ``"episode"``.
        bytes_total: Bytes that the call printed, kept or not.
        raw: The bytes that were kept (head and tail of a flood), for the spool.
        submits: Whether the call ends the episode.
        omitted_bytes: Bytes of the output that `text` left out of its middle, where
            a line says so; 0 for any output of ordinary size.
    """

    text: str
    ok: bool = True
    error_kind: ErrorKind = ErrorKind.NONE
    exit_code: int = -1
    timed_out: bool = False
    limit: str = ""
    bytes_total: int = 0
    raw: bytes = b""
    events: tuple[Event, ...] = ()
    submits: bool = False
    omitted_bytes: int = 0


class Status(StrEnum):
    """How an episode ended."""

    PASSED = "passed"
    FAILED = "failed"
    TAMPERED = "tampered"
    INFRA_ERROR = "infra_error"


class TamperCode(StrEnum):
    """Kinds of tampering; each needs evidence in observable state."""

    HARNESS_TAMPER = "HARNESS_TAMPER"
    VERDICT_FORGE = "VERDICT_FORGE"
    LATE_WRITER = "LATE_WRITER"
    LINK_ESCAPE = "LINK_ESCAPE"
    ANSWER_READ = "ANSWER_READ"
    TYPE_SPOOF = "TYPE_SPOOF"
    EARLY_EXIT = "EARLY_EXIT"
    TOOL_SHADOW = "TOOL_SHADOW"
    CLOCK_BYPASS = "CLOCK_BYPASS"
    NAV_FORBIDDEN = "NAV_FORBIDDEN"
    DOM_PROTO = "DOM_PROTO"
    CHANNEL_BYPASS = "CHANNEL_BYPASS"
    SCHEMA_SHADOW = "SCHEMA_SHADOW"
    PRIV_ESC = "PRIV_ESC"
    GRADER_PROBE = "GRADER_PROBE"
    SERVICE_REMOVED = "SERVICE_REMOVED"
    SERVICE_IMPERSONATED = "SERVICE_IMPERSONATED"
    PROBE_TAMPER = "PROBE_TAMPER"
    MONITOR_TAMPER = "MONITOR_TAMPER"
    DATA_LOSS = "DATA_LOSS"
    FLAPPING = "FLAPPING"
    POLICY_WEAKENED = "POLICY_WEAKENED"
    SANDBOX_ESCAPE = "SANDBOX_ESCAPE"
    EGRESS = "EGRESS"


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant and whether it held."""

    name: str
    passed: bool
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"name": self.name, "passed": self.passed, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where tampering was seen, and what was seen there."""

    code: TamperCode
    where: str
    detail: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"code": str(self.code), "where": self.where, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on an episode.

    Attributes:
        reward: In [0, 1]; 0.0 whenever the status is tampered or infra_error.
        efficiency_penalty: What hygiene took off a win, in reward units.
        collateral: Paths, rows or services changed outside the declared set.
        details: Plain data of a rubric with more to say than its reward.

    Raises:
        ValueError: If the reward is not finite, out of range, or above zero for
            an episode that was tampered with or void.

    Source:
        Project specification, D4 and D5.
    """

    status: Status
    reward: float
    checks: tuple[Check, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    collateral: tuple[str, ...] = ()
    efficiency_penalty: float = 0.0
    reason: str = ""
    details: JsonObject = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.reward) and 0.0 <= self.reward <= 1.0):
            raise ValueError(f"A reward lies in [0, 1], not {self.reward!r}.")
        void = self.status in (Status.TAMPERED, Status.INFRA_ERROR)
        if void and self.reward != 0.0:
            raise ValueError(f"A {self.status} episode earns 0.0, not {self.reward!r}.")

    @property
    def scorable(self) -> bool:
        """Whether the episode may enter any statistic."""
        return self.status is not Status.INFRA_ERROR

    @property
    def tamper(self) -> tuple[str, ...]:
        """Tamper codes, sorted, each once."""
        return tuple(sorted({str(item.code) for item in self.evidence}))

    def to_json(self) -> dict[str, Any]:
        """Return plain data for ``info["outcome"]``; each key has one type."""
        return {
            "status": str(self.status),
            "reward": float(self.reward),
            "passed": [check.name for check in self.checks if check.passed],
            "failed": [check.name for check in self.checks if not check.passed],
            "invariants": [check.to_json() for check in self.checks],
            "tamper": list(self.tamper),
            "evidence": [item.to_json() for item in self.evidence],
            "collateral": list(self.collateral),
            "efficiency_penalty": float(self.efficiency_penalty),
            "reason": self.reason,
            "details": dict(self.details),
        }


@dataclass(frozen=True, slots=True)
class Layer:
    """A read-only directory tree, one floor of an overlay.

    Attributes:
        digest: ``sha256:...`` of what the tree was made from.
        path: Folder on the host; ``/proc/<pid>/root/...`` for a layer that lives
            in a sandbox supervisor's own mount namespace.
        shifted: Whether its files already carry the host ids of the agent's
            range (an upper layer does; a stored one holds plain ids 0 to 65535).
    """

    digest: str
    path: Path
    shifted: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What an episode starts from: layers, the base first."""

    layers: tuple[Layer, ...]

    @property
    def digest(self) -> str:
        """``sha256:...`` over the digests of all layers, in order."""
        return digest_of([layer.digest for layer in self.layers])


def digest_of(parts: Sequence[str | bytes]) -> str:
    """Return ``sha256:`` and the hex digest of length-prefixed parts."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big"))
        total.update(data)
    return f"sha256:{total.hexdigest()}"


@dataclass(frozen=True, slots=True)
class Budget:
    """What an episode may use up.

    Attributes:
        turns: Tool calls, at least 1.
        seconds: Wall time of the host for the whole episode.
        step_timeout_s: Wall time of one tool call.

    Raises:
        ValueError: If a limit is not positive and finite.
    """

    turns: int = 64
    seconds: float = 600.0
    step_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        for name in ("turns", "seconds", "step_timeout_s"):
            value = getattr(self, name)
            if not _is_limit(value):
                raise WrongArgument(
                    f"budget {name} must be positive and finite, not {value!r}.",
                    remedy=f"give {name} as a number above 0",
                )


def _is_limit(value: object) -> bool:
    """Whether it is a number above 0; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return 0 < float(value) < math.inf


@dataclass(frozen=True, slots=True)
class VerifierSpec:
    """One check of the final state: which verifier, with which options."""

    kind: str
    name: str
    options: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verification:
    """How a task is judged.

    Attributes:
        mode: ``artifacts`` (declared files only cross), ``system`` (the whole final
            root, read-only) or ``database`` (rows, definitions and side effects).
        artifacts: Absolute files or folders that the submission consists of.
        writes: Globs of paths that an honest solution may change; a change
            elsewhere is collateral. A row is ``/rows/<schema>.<table>/<key>``, a
            definition ``/catalogue/<kind>/<name>``.
        guarded: Globs whose change is tampering, beside the built-in ones.
        checks: In order; all must pass.
        timeout_s: Wall time for all checks together.
        manifest: Verifier file name to SHA-256 hex digest.
    """

    mode: str
    artifacts: tuple[str, ...]
    writes: tuple[str, ...]
    checks: tuple[VerifierSpec, ...]
    guarded: tuple[str, ...] = ()
    timeout_s: float = 60.0
    manifest: Mapping[str, str] = field(default_factory=dict)
