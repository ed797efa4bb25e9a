"""The test kit that every backend passes: `CHECKS`, run on a `Bench`.

A test of a backend is three lines: make a `Bench`, and call each check that
`Check.applies` to it. A check asks for capabilities, never for a backend.
"""

from __future__ import annotations

from rlvr_envs.sandbox.conformance_confinement import CONFINEMENT
from rlvr_envs.sandbox.conformance_harness import HARNESS
from rlvr_envs.sandbox.conformance_kit import Bench, Check, NotConforming
from rlvr_envs.sandbox.conformance_lifecycle import LIFECYCLE
from rlvr_envs.sandbox.conformance_processes import PROCESSES

CHECKS: tuple[Check, ...] = (*PROCESSES, *CONFINEMENT, *HARNESS, *LIFECYCLE)

__all__ = ["CHECKS", "Bench", "Check", "NotConforming"]
