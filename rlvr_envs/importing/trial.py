"""What became of one imported task when it was built and played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlvr_envs.importing.harbor_judge import BROKEN

NO_PROGRAM = "the script's programs are missing"

BUILT, NOT_BUILT, INFRA = "built", "not_built", "infra"


@dataclass(frozen=True, slots=True)
class Trial:
    """A task and how one policy fared on it.

    Attributes:
        build: ``built``, ``not_built`` (a step of its own failed) or ``infra``
            (a fault of the harness, or a test that could not run at all).
        reward: Of the policy; None where there is no verdict on it.
        reason: Why, in words; empty for a pass.
    """

    task: str
    policy: str
    build: str
    status: str = ""
    reward: float | None = None
    tamper: tuple[str, ...] = ()
    reason: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "task": self.task,
            "policy": self.policy,
            "build": self.build,
            "status": self.status,
            "reward": self.reward,
            "tamper": list(self.tamper),
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
        }


def trial_of(
    task: str, policy: str, outcome: Mapping[str, Any], *, seconds: float
) -> Trial:
    """Read an outcome; a verdict that says nothing about the policy is infra.

    Args:
        task: Its name.
        policy: Its name.
        outcome: As ``info["outcome"]``.
        seconds: Of the whole trial.
    """
    reasons = _reasons(outcome)
    broken = outcome["status"] == "infra_error" or any(
        reason.startswith((BROKEN, NO_PROGRAM)) for reason in reasons
    )
    return Trial(
        task=task,
        policy=policy,
        build=INFRA if broken else BUILT,
        status="infra_error" if broken else str(outcome["status"]),
        reward=None if broken else float(outcome["reward"]),
        tamper=tuple(outcome["tamper"]),
        reason="; ".join(reasons) or str(outcome["reason"]),
        seconds=seconds,
    )


def _reasons(outcome: Mapping[str, Any]) -> list[str]:
    rows = outcome["invariants"]
    return [str(row["reason"]) for row in rows if not row["passed"]]


def summary(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return how many were built, passed and failed; what passed is named."""
    passed = [trial.task for trial in trials if trial.status == "passed"]
    counts = {
        kind: sum(trial.build == kind for trial in trials)
        for kind in (BUILT, NOT_BUILT, INFRA)
    }
    return {
        "trials": len(trials),
        **counts,
        "passed": len(passed),
        "failed": sum(trial.status == "failed" for trial in trials),
        "tampered": sum(trial.status == "tampered" for trial in trials),
        "passed_tasks": passed,
    }
