"""How a measurement is taken and said."""

from __future__ import annotations

import argparse
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

WARM_UPS = 10
"""Rounds that are not counted."""


@dataclass
class Samples:
    """Times of one kind, in milliseconds."""

    values_ms: list[float] = field(default_factory=list)

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Add the wall time of the block."""
        began = time.perf_counter()
        yield
        self.values_ms.append((time.perf_counter() - began) * 1e3)

    def time(self, act: Callable[[], Any]) -> Any:
        """Add the wall time of a call; return what it returned."""
        with self.timing():
            return act()

    def percentile(self, share: float) -> float | None:
        """Return the nearest-rank percentile; ``None`` without samples."""
        if not self.values_ms:
            return None
        ranked = sorted(self.values_ms)
        rank = max(1, math.ceil(share * len(ranked)))
        return round(ranked[rank - 1], 4)

    def to_json(self, prefix: str = "") -> dict[str, Any]:
        """Return p50, p95 and max under names that start with ``prefix``."""
        return {
            f"{prefix}p50_ms": self.percentile(0.50),
            f"{prefix}p95_ms": self.percentile(0.95),
            f"{prefix}max_ms": self.percentile(1.0),
        }


@dataclass(frozen=True)
class Setting:
    """What a bench is told.

    Attributes:
        make: Builds the environment; starts nothing.
        rounds: Counted rounds.
        tick: Called once a round.
    """

    args: argparse.Namespace
    make: Callable[[], Any]
    rounds: int
    tick: Callable[[str], None]

    def options(self, task: str) -> dict[str, Any]:
        """Return reset options."""
        return {"task": task, "instance": self.args.instance}

    def line(self, bench: str, **facts: Any) -> dict[str, Any]:
        """Return a result line: what was measured, then the figures."""
        head = {"bench": bench, "env": self.args.env.rpartition(":")[2]}
        return {**head, "n": self.rounds, **facts, "machine": machine()}


def ratio(one: float | None, other: float | None) -> float | None:
    """Return ``one / other`` rounded; ``None`` if either is missing."""
    return round(one / other, 3) if one is not None and other else None


def difference(one: float | None, other: float | None) -> float | None:
    """Return ``one - other`` rounded; ``None`` if either is missing."""
    return round(one - other, 4) if one is not None and other is not None else None


def machine() -> Mapping[str, Any]:
    """Return what a figure means nothing without."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory_kib("MemTotal") / 2**20, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "gymnasium": version("gymnasium"),
        "rlvr_envs": version("rlvr-envs"),
        "load": round(os.getloadavg()[0], 2),
        "rss_mib": round(rss_kib() / 1024, 1),
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def memory_kib(name: str) -> int:
    """Return a line of /proc/meminfo."""
    return _kib(Path("/proc/meminfo"), name)


def rss_kib() -> int:
    """Return the resident size of this process."""
    return _kib(Path("/proc/self/status"), "VmRSS")


def _kib(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def ballast(size_mib: int) -> Sequence[bytearray]:
    """Return resident memory, every page of it touched."""
    blocks = [bytearray(1 << 20) for _ in range(size_mib)]
    for block in blocks:
        block[:: 1 << 12] = b"\x01" * (len(block) >> 12)
    return blocks


def policy_actions(env: Any, name: str = "gold") -> Sequence[Any]:
    """Return a script's actions for the episode just reset; null where none is."""
    from rlvr_envs.rollouts.policies import submission  # noqa: PLC0415  # heavy
    from rlvr_envs.tasks import scripts  # noqa: PLC0415  # heavy

    script = scripts.gold(env.get_wrapper_attr("instance")) if name == "gold" else None
    if script is None:
        return [submission(env.get_wrapper_attr("tool_specs"))]
    return [call.to_json() for call in script.calls]
