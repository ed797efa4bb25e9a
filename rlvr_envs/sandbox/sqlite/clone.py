"""A database of one episode: the agent's sessions, the grader's, and what remains."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlvr_envs.errors import SandboxError
from rlvr_envs.relational import (
    CatalogueChange,
    DatabaseDiff,
    Ledger,
    RowChange,
    RowKind,
)
from rlvr_envs.sandbox.sqlite.shelf import Shelf, Template
from rlvr_envs.sandbox.sqlite.workers import Worker, WorkerGone

LIMIT_ROWS = 10_000
"""How many differing rows of one table are read on each side."""

_GRACE_S = 1.0
_GRADE_S = 60.0
_OPEN_S = 30.0


@dataclass(frozen=True, slots=True)
class Access:
    """What the agent may do.

    Attributes:
        rights: ``read``, ``write``, ``truncate`` (the same here) or ``define``.
        define: Tables of the seed, ``main.name``, whose definition the agent may
            change, with the right to define.
    """

    rights: str = "write"
    define: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one statement may take; see `inside.statements.Bounds`."""

    seconds: float = 30.0
    rows: int = 200
    size: int = 32_768


class Clone:
    """A copy of a seed's database. Made by `make_clone`.

    The agent has two sessions, one that lasts and one that only looks, in a process
    of their own; the grader's is another one. Nothing of it is opened here.
    """

    virtual_clock = True
    overruns: tuple[str, ...] = ()

    def __init__(self, shelf: Shelf, template: Template, access: Access) -> None:
        self.template = template
        self.access = access
        self._shelf = shelf
        self._path = shelf.copy(template)
        self._agent: Worker | None = None
        self._grader: Worker | None = None
        self._sessions = 0
        self._epoch_s = 0.0
        self._seed = 0
        self._open = False
        self._frozen = False
        self._closed = False
        self._when_closed: Callable[[], None] = _nothing
        try:
            self._opened()
        except (SandboxError, WorkerGone) as error:
            self.close()
            raise SandboxError(f"A copied database cannot be used: {error}") from error

    def set_clock(self, epoch_s: float, *, seed: int | None = None) -> None:
        """Say what time it is for the agent's sessions; it stands still until then.

        Args:
            epoch_s: In seconds since 1970.
            seed: Of their randomness, any integer; the same one goes on with the
                numbers where they were, as does ``None``.
        """
        self._epoch_s = epoch_s
        self._seed = self._seed if seed is None else seed

    def run(
        self, statement: str, bounds: Bounds, *, lasting: bool = True
    ) -> Mapping[str, Any]:
        """Run one statement of the agent's.

        Args:
            statement: Any; what it does wrong is part of the answer.
            bounds: Once the time is over, the statement is interrupted; a process
                that does not heed that is killed, and the next one starts afresh.
            lasting: In the session that lasts, with the rights that the agent has;
                otherwise in one that only looks.

        Returns:
            See `inside.statements.Door.run`; and ``lost``, whether the process died.

        Raises:
            SandboxError: If the database is frozen or cannot be opened.
        """
        question = {
            "statement": statement,
            "lasting": lasting,
            "epoch_s": self._epoch_s,
            "seconds": bounds.seconds,
            "rows": bounds.rows,
            "size": bounds.size,
        }
        try:
            agent = self._opened()
            question["seed"] = _stream(self._seed, self._sessions)
            answer = agent.ask(question, timeout_s=bounds.seconds + _GRACE_S)
        except WorkerGone as gone:
            self._agent, self._open = None, False
            return {"lost": True, "timed_out": gone.late}
        if "failure" in answer:
            agent.kill()
            self._agent, self._open = None, False
            return {"lost": True, "timed_out": False}
        if lasting and "open" in answer:
            self._open = answer["open"] is True
        return {**answer, "lost": False}

    @property
    def open(self) -> bool:
        """Whether the session that lasts has a transaction open."""
        return self._open

    def freeze(self) -> tuple[str, ...]:
        """Kill the agent's process; what it did not commit is undone.

        Returns:
            ``idle in transaction`` if one was open; nothing otherwise.
        """
        states = ("idle in transaction",) if self._open else ()
        self._frozen, self._open = True, False
        agent, self._agent = self._agent, None
        if agent is not None:
            agent.kill()
        return states

    def end_turn(self, turn: int) -> None:
        """Do nothing: the engine keeps no log that a turn could be marked in."""

    def diff(self, *, limit_rows: int = LIMIT_ROWS) -> DatabaseDiff:
        """Return how rows and definitions differ from the seed's.

        Raises:
            SandboxError: If the clone is not frozen, or cannot be read.
        """
        if not self._frozen:
            raise SandboxError("A database is graded between its freeze and its end.")
        return self.look(limit_rows=limit_rows)

    def look(self, *, limit_rows: int = LIMIT_ROWS) -> DatabaseDiff:
        """Return the same of what is committed while the episode lives."""
        found = self._graded({"do": "compare", "limit_rows": limit_rows})
        return DatabaseDiff(
            tuple(_row_change(row) for row in found["rows"]),
            tuple(CatalogueChange(**entry) for entry in found["catalogue"]),
            tuple(found["unread"]),
            found["complete"],
        )

    def ledger(self) -> Ledger:
        """Return the rows that differ in the end: the engine keeps no log of writes."""
        diff = self.diff()
        return Ledger(diff.rows, complete=diff.complete)

    def ask(
        self,
        statement: str,
        values: Mapping[str, Any],
        bounds: Bounds,
        *,
        untouched: bool = False,
    ) -> Mapping[str, Any]:
        """Run one reading statement of a verifier's, in the grader's process.

        Args:
            statement: Tables with their schema, ``main.name``.
            bounds: Rows beyond them are not read.
            values: Plain data; a value stands as ``%(name)s``.
            untouched: In the seed's database in place of the episode's.

        Returns:
            ``names`` and ``rows``; or ``problem``, if it did not run to its end.

        Raises:
            SandboxError: If the database cannot be read.
        """
        question = {
            "do": "ask",
            "statement": statement,
            "values": dict(values),
            "untouched": untouched,
            "seconds": bounds.seconds,
            "rows": bounds.rows,
        }
        return self._graded(question, timeout_s=bounds.seconds + _GRACE_S)

    def when_closed(self, act: Callable[[], None]) -> None:
        """Name what shall be done once, when it is closed."""
        self._when_closed = act

    def close(self) -> None:
        """Remove every trace; idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            with contextlib.suppress(SandboxError):
                self.freeze()
            if self._grader is not None:
                self._grader.kill()
            shutil.rmtree(self._path.parent, ignore_errors=True)
        finally:
            self._when_closed()

    def _opened(self) -> Worker:
        if self._frozen or self._closed:
            raise SandboxError("A frozen database has no door for an agent.")
        if self._agent is None:
            worker = self._shelf.nursery.worker()
            self._sessions += 1
            order = {
                "role": "agent",
                "path": str(self._path),
                "rights": self.access.rights,
                "closed": self._closed_names(),
            }
            _open(worker, order)
            self._agent = worker
        return self._agent

    def _closed_names(self) -> list[str]:
        free = {name.removeprefix("main.").lower() for name in self.access.define}
        return [name for name in self.template.names if free and name not in free]

    def _graded(
        self, question: Mapping[str, Any], *, timeout_s: float = _GRADE_S
    ) -> Mapping[str, Any]:
        if self._closed:
            raise SandboxError("A closed database cannot be read.")
        try:
            if self._grader is None:
                worker = self._shelf.nursery.worker()
                base = str(self.template.path)
                path = str(self._path)
                _open(worker, {"role": "grader", "path": path, "base": base})
                self._grader = worker
            answer = self._grader.ask(question, timeout_s=timeout_s)
        except WorkerGone as gone:
            self._grader = None
            raise SandboxError(f"The grader's process was {gone}.") from gone
        if "failure" in answer:
            raise SandboxError(f"A database cannot be read: {answer['failure']}")
        return answer


def _nothing() -> None:
    """Do that."""


def make_clone(shelf: Shelf, template: Template, access: Access) -> Clone:
    """Copy a seed's database, for one episode.

    Raises:
        SandboxError: If it cannot be copied, or no process starts.
    """
    return Clone(shelf, template, access)


def _open(worker: Worker, order: Mapping[str, Any]) -> None:
    answer = worker.ask(order, timeout_s=_OPEN_S)
    if "failure" in answer:
        worker.kill()
        raise SandboxError(f"A database cannot be opened: {answer['failure']}")


def _row_change(row: Mapping[str, Any]) -> RowChange:
    return RowChange(
        row["table"],
        RowKind(row["kind"]),
        row["old"],
        row["new"],
        key=tuple(row["key"]),
    )


def _stream(seed: int, session: int) -> int:
    digest = hashlib.sha256(f"{seed} {session}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
