"""The IP counters of a network namespace, read by one of its processes' pid."""

from __future__ import annotations

from pathlib import Path

from rlvr_envs.errors import SandboxError

_NAME = "OutNoRoutes"


def unrouted(pid: int) -> int:
    """Return how many packets of a process's network namespace had no route.

    Both protocols count; a kernel without IPv6 has none of it.

    Raises:
        SandboxError: If the process is gone.
    """
    tables = Path(f"/proc/{pid}/net")
    try:
        four = (tables / "snmp").read_text().splitlines()[:2]
        six = tables / "snmp6"
        words = six.read_text().split() if six.exists() else []
    except OSError as error:
        raise SandboxError(f"The network cannot be read: {error}.") from error
    first = dict(zip(*(line.split() for line in four), strict=True))
    second = dict(zip(words[::2], words[1::2], strict=True))
    return int(first.get(_NAME, 0)) + int(second.get(f"Ip6{_NAME}", 0))
