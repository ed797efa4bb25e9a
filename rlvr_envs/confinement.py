"""What a sandbox is held to; it travels down in `reset` and only ever narrows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ClockRule:
    """Frozen wall time.

    Attributes:
        epoch_s: Wall time at turn 0, in whole seconds since 1970, UTC; ``None``
            means the task's own epoch.
        step_s: How far each turn moves it, in seconds, at least 0.
        increment_s: How far each clock reading moves it within one process.

    Source:
        Own rule: ARCHITECTURE.md#frozen-time.
    """

    epoch_s: int | None = None
    step_s: float = 1.0
    increment_s: float = 0.001

    def __post_init__(self) -> None:
        for name in ("step_s", "increment_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"clock {name} must be zero or more, not {value!r}.")

    def starting(self, epoch_s: int) -> ClockRule:
        """Return the rule with an epoch; one that it has already stays."""
        return self if self.epoch_s is not None else replace(self, epoch_s=epoch_s)

    def at_turn(self, turn: int) -> float:
        """Return the wall time that turn number ``turn`` starts at, in seconds.

        Raises:
            ValueError: If the rule has no epoch yet.
        """
        if self.epoch_s is None:
            raise ValueError("This clock has no epoch yet: call `starting` first.")
        return self.epoch_s + turn * self.step_s


@dataclass(frozen=True, slots=True)
class Exchange:
    """A recorded HTTP exchange, answered on loopback when it is asked again."""

    method: str
    url: str
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class EgressRule:
    """What stands in for the network: pinned names and recorded exchanges."""

    dns: Mapping[str, str] = field(default_factory=dict)
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings of one sandbox.

    Attributes:
        memory_bytes: All processes and the writable layer together.
        pids: Processes and threads alive at once.
        disk_bytes: Writable layer; below the memory cap, so that a full disk is
            ENOSPC and not an out-of-memory kill.
        inodes: Files in the writable layer.
        cpu_weight: As in cgroup v2, 1 to 10000.
        spool_bytes: What is kept of one step's output (half head, half tail).

    Raises:
        ValueError: If a limit is not positive and finite.
    """

    memory_bytes: int = 512 * MIB
    pids: int = 256
    disk_bytes: int = 256 * MIB
    inodes: int = 65_536
    cpu_weight: int = 100
    spool_bytes: int = 16 * MIB

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"limit {item.name} must be positive, not {value!r}.")

    def narrow(self, other: Limits) -> Limits:
        """Return the lower of the two for each limit."""
        return Limits(
            **{
                item.name: min(getattr(self, item.name), getattr(other, item.name))
                for item in fields(self)
            }
        )


_USUAL = Limits()


@dataclass(frozen=True, slots=True)
class Confinement:
    """Clock, egress and limits of one episode.

    There is no field for "network on": a sandbox never has one.
    """

    limits: Limits = _USUAL
    clock: ClockRule | None = None
    egress: EgressRule | None = None

    def narrow(
        self,
        *,
        limits: Limits | None = None,
        clock: ClockRule | None = None,
        egress: EgressRule | None = None,
    ) -> Confinement:
        """Return a confinement that is at least as tight.

        A clock or an egress rule that is set stays: the first, innermost word
        holds. Limits become the lower of both.
        """
        return replace(
            self,
            limits=self.limits.narrow(limits) if limits else self.limits,
            clock=self.clock or clock,
            egress=self.egress or egress,
        )
