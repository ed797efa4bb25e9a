"""The IP counters of a network namespace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rlvr_envs.errors import SandboxError


def read_counters(pid: int) -> Mapping[str, int]:
    """Return the counters of a process's network namespace.

    Args:
        pid: Host pid of a process in it.

    Returns:
        Those of IP by their own name (``OutNoRoutes``), others with their
        protocol's in front (``UdpOutDatagrams``, ``Ip6OutNoRoutes``).

    Raises:
        SandboxError: If the process is gone.
    """
    try:
        folder = Path(f"/proc/{pid}/net")
        counters = dict(_pairs((folder / "snmp").read_text()))
        six = folder / "snmp6"
        rows = six.read_text().splitlines() if six.exists() else []
    except OSError as error:
        raise SandboxError(f"The network cannot be read: {error}.") from error
    counters.update((row.split()[0], int(row.split()[1])) for row in rows)
    return counters


def _pairs(snmp: str) -> Iterator[tuple[str, int]]:
    lines = snmp.splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        protocol, _, row = names.partition(":")
        prefix = "" if protocol == "Ip" else protocol
        for name, value in zip(row.split(), values.split()[1:], strict=True):
            yield prefix + name, int(value)
