"""Scheduled trouble: a service that asks for patience, or loses an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

BEFORE, AFTER = "before", "after"
_NAMES = frozenset({"operation", "status", "times", "retry_after_s", "when"})
_STATUSES = (429, 500, 502, 503)


@dataclass(slots=True)
class Fault:
    """One row of the schedule.

    Attributes:
        operation: Which requests it meets; empty for all.
        times: How many of them are left.
        retry_after_s: Told in ``Retry-After``; whoever comes earlier is refused
            again.
        when: ``before`` the work, or ``after`` it, which stands: only the answer is
            lost.
    """

    status: int
    operation: str = ""
    times: int = 1
    retry_after_s: int = 1
    when: str = BEFORE
    until_s: float = 0.0


class Faults:
    """The schedule of one episode.

    Args:
        rows: Of the instance's settings.

    Raises:
        ValueError: If a row is wrong.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows = [_fault(row) for row in rows]

    @property
    def operations(self) -> frozenset[str]:
        """Operations that rows name."""
        return frozenset(fault.operation for fault in self._rows) - {""}

    def meets(self, operation: str, when: str, now_s: float) -> Fault | None:
        """Return the fault that meets a request, used up once; ``None`` if none does."""
        for fault in self._rows:
            if fault.operation not in ("", operation) or fault.when != when:
                continue
            if fault.times > 0:
                fault.times -= 1
                fault.until_s = now_s + fault.retry_after_s
                return fault
            if now_s < fault.until_s and when == BEFORE:
                return fault
        return None


def _fault(row: Mapping[str, Any]) -> Fault:
    strange = sorted(row.keys() - _NAMES)
    if strange:
        raise ValueError(f"A fault has no {strange[0]!r}; known: {sorted(_NAMES)}.")
    fault = Fault(**row)
    if fault.status not in _STATUSES or fault.when not in (BEFORE, AFTER):
        raise ValueError(f"A fault answers one of {_STATUSES}, before or after: {row}.")
    return fault
