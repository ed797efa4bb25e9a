"""The IP counters of a network namespace."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

from rlvr_envs.errors import SandboxError

_MOST_BYTES = 1 << 16


class Counters:
    """Counters of one namespace, read through files that stay open.

    Args:
        pid: Host pid of a process in it.

    Raises:
        SandboxError: If the process is gone.
    """

    def __init__(self, pid: int) -> None:
        self._files: list[int] = []
        try:
            for name in ("snmp", "snmp6"):
                path = f"/proc/{pid}/net/{name}"
                if name == "snmp" or os.path.exists(path):  # noqa: PTH110
                    self._files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            self.close()
            raise SandboxError(f"The network cannot be read: {error}.") from error

    def read(self) -> Mapping[str, int]:
        """Return the counters.

        Returns:
            Those of IP by their own name (``OutNoRoutes``), others with their
            protocol's in front (``UdpOutDatagrams``, ``Ip6OutNoRoutes``).

        Raises:
            SandboxError: If they cannot be read.
        """
        try:
            text = tuple(os.pread(fd, _MOST_BYTES, 0) for fd in self._files)
        except OSError as error:
            raise SandboxError(f"The network cannot be read: {error}.") from error
        return _parsed(text)

    def close(self) -> None:
        """Let go of the namespace; idempotent."""
        while self._files:
            os.close(self._files.pop())


def read_counters(pid: int) -> Mapping[str, int]:
    """Return the counters of a process's network namespace once.

    Raises:
        SandboxError: If the process is gone.
    """
    counters = Counters(pid)
    try:
        return counters.read()
    finally:
        counters.close()


@lru_cache(maxsize=64)
def _parsed(text: tuple[bytes, ...]) -> Mapping[str, int]:
    """Parse a text once: fresh namespaces and quiet turns all say the same."""
    values = dict(_pairs(text[0].decode()))
    for part in text[1:]:
        values.update(_rows(part.decode()))
    return MappingProxyType(values)


def _pairs(snmp: str) -> Iterator[tuple[str, int]]:
    lines = snmp.splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        protocol, _, row = names.partition(": ")
        prefix = "" if protocol == "Ip" else protocol
        numbers = map(int, values.split()[1:])
        yield from zip((prefix + name for name in row.split()), numbers, strict=True)


def _rows(snmp6: str) -> Iterator[tuple[str, int]]:
    words = snmp6.split()
    return zip(words[::2], map(int, words[1::2]), strict=True)
