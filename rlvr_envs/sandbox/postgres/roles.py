"""Who may do what: an owner that nobody can be, and agents that own nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

OWNER = "rlvr_owner"
"""Owns every database and every object of a seed; cannot log in."""

PARTY = "rlvr_party"
"""Group of those who write beside agents; it alone reaches their own schema."""


class Rights(StrEnum):
    """What an agent's role may do to a seed; each includes the former.

    The last makes objects beside the seed's, and owns those of its tables that the
    seed itself gives away: an owner can keep its writes out of the ledger, which
    then proves nothing of that table, though the difference of states still does.
    """

    READ = "read"
    WRITE = "write"
    TRUNCATE = "truncate"
    DEFINE = "define"

    @property
    def group(self) -> str:
        """The role that holds the privileges."""
        return f"rlvr_{self}"


_LIMITS = (
    "statement_timeout_s",
    "transaction_timeout_s",
    "temp_file_mib",
    "memory_mib",
    "disk_mib",
    "log_mib",
)


@dataclass(frozen=True, slots=True)
class Access:
    """The agent's role of one episode.

    Attributes:
        rights: Reading alone makes transactions read-only by default, and leaves
            out temporary tables.
        statement_timeout_s: Where the server gives a statement up. The agent can
            set its own, so that a session needs a limit beside it.
        transaction_timeout_s: The same for a whole transaction, busy or idle.
        temp_file_mib: Disk for sorts and hashes; the agent cannot raise it.
        memory_mib: What the process of one session may hold; our own server alone.
        disk_mib: By how much the database may grow, temporary tables included.
        log_mib: How much of the server's log may be written; our own server alone.
        has_party: Whether somebody, a service say, writes beside the agent: then a
            session for that stands ready as well.

    Raises:
        ValueError: If a limit is not positive and finite.
    """

    rights: Rights = Rights.WRITE
    statement_timeout_s: float = 30.0
    transaction_timeout_s: float = 60.0
    temp_file_mib: int = 256
    memory_mib: int = 256
    disk_mib: int = 256
    log_mib: int = 128
    has_party: bool = False

    def __post_init__(self) -> None:
        for name in _LIMITS:
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive and finite, not {value!r}.")

    def settings(self) -> dict[str, str]:
        """Return what a session of the role starts with, and goes back to by RESET.

        What only a superuser may set is the role's own.
        """
        read_only = "on" if self.rights is Rights.READ else "off"
        transaction = f"{math.ceil(self.transaction_timeout_s * 1000)}ms"
        return {
            "statement_timeout": f"{math.ceil(self.statement_timeout_s * 1000)}ms",
            "transaction_timeout": transaction,
            "idle_in_transaction_session_timeout": transaction,
            "default_transaction_read_only": read_only,
            "timezone": "UTC",
            "datestyle": "ISO,YMD",
            "intervalstyle": "postgres",
            "extra_float_digits": "1",
            "bytea_output": "hex",
        }
