"""What /proc says inside where the kernel would speak of the host.

Constant, so that two episodes and two machines agree; the sizes are the sandbox's
own limits. The number of processors stays the host's: programs learn it by other
ways too (the affinity mask), and the two should not contradict each other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

from rlvr_envs.sandbox.base import SandboxSpec

_BOOT_ID = "5a1dbe11-0000-4000-8000-000000000001\n"
_UPTIME = "3600.00 3600.00\n"
_LOAD = "0.00 0.00 0.00 1/64 64\n"
_BOOT_BEFORE_EPOCH_S = 3600


def proc_files(spec: SandboxSpec) -> Mapping[str, str]:
    """Return contents by path below ``/proc``."""
    boot_s = epoch_of(spec) - _BOOT_BEFORE_EPOCH_S
    return {
        "uptime": _UPTIME,
        "loadavg": _LOAD,
        "meminfo": _meminfo(spec.confinement.limits.memory_bytes >> 10),
        "stat": _stat(_processors(), max(0, boot_s)),
        "cpuinfo": _cpuinfo(_processors()),
        "sys/kernel/random/boot_id": _BOOT_ID,
    }


def epoch_of(spec: SandboxSpec) -> int:
    """Return the wall time that the sandbox starts at; 0 where none was set."""
    clock = spec.confinement.clock
    return clock.epoch_s or 0 if clock else 0


def _processors() -> int:
    return len(os.sched_getaffinity(0))


@cache
def _meminfo(total_kib: int) -> str:
    free = total_kib * 3 // 4
    rows = {
        "MemTotal": total_kib,
        "MemFree": free,
        "MemAvailable": free,
        "Buffers": 0,
        "Cached": 0,
        "SwapCached": 0,
        "Active": total_kib - free,
        "Inactive": 0,
        "SwapTotal": 0,
        "SwapFree": 0,
        "Dirty": 0,
        "Mapped": 0,
        "Shmem": 0,
        "SReclaimable": 0,
        "SUnreclaim": 0,
    }
    return "".join(f"{name + ':':<15} {kib:>9} kB\n" for name, kib in rows.items())


@cache
def _stat(processors: int, boot_s: int) -> str:
    counts = "100 0 100 360000 0 0 0 0 0 0"
    lines = [f"cpu  {counts}"]
    lines += [f"cpu{number} {counts}" for number in range(processors)]
    lines += ["intr 0", "ctxt 0", f"btime {boot_s}", "processes 64"]
    lines += ["procs_running 1", "procs_blocked 0", "softirq 0"]
    return "\n".join(lines) + "\n"


@cache
def _cpuinfo(processors: int) -> str:
    block = (
        "processor\t: {number}\nvendor_id\t: Virtual\nmodel name\t: Virtual CPU\n"
        "cpu MHz\t\t: 2000.000\ncache size\t: 1024 KB\nphysical id\t: 0\n"
        "siblings\t: {count}\ncore id\t\t: {number}\ncpu cores\t: {count}\n"
        "bogomips\t: 4000.00\n\n"
    )
    return "".join(
        block.format(number=number, count=processors) for number in range(processors)
    )
