"""Verifiers: one file for each thing that is read of a frozen state."""

from rlvr_envs.verifiers.judge import Judge, judge
from rlvr_envs.verifiers.kinds import KINDS, validate_options
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

__all__ = [
    "KINDS",
    "Context",
    "Findings",
    "Judge",
    "Verifier",
    "judge",
    "validate_options",
]
