"""The IP counters of a network namespace."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from rlvr_envs.errors import SandboxError

_MOST_BYTES = 1 << 16


class Counters:
    """Counters of one namespace, parsed again only when the kernel's text differs.

    Args:
        pid: Host pid of a process in it.
    """

    def __init__(self, pid: int) -> None:
        self._folder = f"/proc/{pid}/net"
        self._text = (b"", b"")
        self._values: Mapping[str, int] = {}

    def read(self) -> Mapping[str, int]:
        """Return the counters.

        Returns:
            Those of IP by their own name (``OutNoRoutes``), others with their
            protocol's in front (``UdpOutDatagrams``, ``Ip6OutNoRoutes``).

        Raises:
            SandboxError: If the process is gone.
        """
        try:
            text = (_content(f"{self._folder}/snmp"), self._six())
        except OSError as error:
            raise SandboxError(f"The network cannot be read: {error}.") from error
        if text != self._text:
            self._values = dict([*_pairs(text[0].decode()), *_rows(text[1].decode())])
            self._text = text
        return self._values

    def _six(self) -> bytes:
        try:
            return _content(f"{self._folder}/snmp6")
        except FileNotFoundError:
            return b""


def read_counters(pid: int) -> Mapping[str, int]:
    """Return the counters of a process's network namespace once.

    Raises:
        SandboxError: If the process is gone.
    """
    return Counters(pid).read()


def _content(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _MOST_BYTES)
    finally:
        os.close(fd)


def _pairs(snmp: str) -> Iterator[tuple[str, int]]:
    lines = snmp.splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        protocol, _, row = names.partition(":")
        prefix = "" if protocol == "Ip" else protocol
        for name, value in zip(row.split(), values.split()[1:], strict=True):
            yield prefix + name, int(value)


def _rows(snmp6: str) -> Iterator[tuple[str, int]]:
    for row in snmp6.splitlines():
        name, value = row.split()
        yield name, int(value)
