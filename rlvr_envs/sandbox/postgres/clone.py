"""A database of one episode: the agent's door, the grader's, and what was written."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import LiteralString, cast

import psycopg
from psycopg import errors, sql

from rlvr_envs.errors import SandboxError, boundary
from rlvr_envs.relational import CatalogueEntry, DatabaseDiff, Ledger
from rlvr_envs.sandbox.postgres.catalogue import role_settings
from rlvr_envs.sandbox.postgres.clocking import SessionClocks
from rlvr_envs.sandbox.postgres.cluster import Connection, options_of
from rlvr_envs.sandbox.postgres.decoding import FLUSH_PREFIX, TURN_PREFIX, decode
from rlvr_envs.sandbox.postgres.differing import LIMIT_ROWS, diff
from rlvr_envs.sandbox.postgres.naming import owned_name
from rlvr_envs.sandbox.postgres.prepared import prepared, undo
from rlvr_envs.sandbox.postgres.preparing import PUBLICATION
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.templates import Template

LIMIT_MESSAGES = 1_000_000
"""How much of a ledger is read, in messages of the server's log."""

_FREEZE_S = 30.0
_POLL_S = 0.002
_SLOT_S = 1.0

_ROLE: LiteralString = (
    "CREATE ROLE {role} LOGIN PASSWORD {password}; "
    "ALTER ROLE {role} SET temp_file_limit = {temp_file_limit}; "
    "ALTER ROLE {role} SET lc_messages = 'C'; "
    "GRANT {group} TO {role} WITH INHERIT TRUE, SET FALSE; "
    "REVOKE ALL ON DATABASE {role} FROM PUBLIC; "
    "GRANT {privileges} ON DATABASE {role} TO {role}; "
    "GRANT CONNECT ON DATABASE {role} TO {grader}, {party}"
)
_ONLOOKER: LiteralString = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET LOCAL lock_timeout = '100ms'"
)
_SESSIONS = """
SELECT pid, state FROM pg_stat_activity
WHERE usename = %s AND pid <> pg_backend_pid() ORDER BY pid
"""


class Clone:
    """One database, one role of the same name, one slot. Made by `make_clone`.

    Attributes:
        name: Of the database and of the agent's role; it differs between runs, so
            that observations must not show it.
        admin: The superuser's connection, inside.
    """

    def __init__(
        self, name: str, template: Template, access: Access, admin: Connection
    ) -> None:
        self.name = name
        self.template = template
        self.access = access
        self.admin = admin
        self._cluster = template.cluster
        self._password = secrets.token_hex(16)
        self._agents: list[Connection] = []
        self._clocks = SessionClocks(self._cluster.clock)
        self._spare: Connection | None = None
        self._spare_party: Connection | None = None
        self._settings: tuple[CatalogueEntry, ...] = ()
        self._grader: Connection | None = None
        self._onlooker: Connection | None = None
        self._seen = DatabaseDiff()
        self._frozen = False
        self._closed = False
        self._closing: list[Callable[[], None]] = []

    def open_agent(self) -> Connection:
        """Open a session of the agent's role; the first one is ready at once.

        Raises:
            SandboxError: If the clone is frozen or the server is gone.
        """
        if self._frozen or self._closed:
            raise SandboxError("A frozen database has no door for an agent.")
        opened, self._spare = self._spare, None
        if opened is None or opened.broken:
            opened = self._reconnect_agent()
        self._agents.append(opened)
        self._clocks.follow(opened)
        return opened

    def open_party(self) -> Connection:
        """Open a session of who else writes here: no agent, and no superuser.

        What an agent may leave behind, a trigger say, gains nothing by it. It lives by
        the episode's clock. The caller closes it. The first one is ready at once where
        the access says that there is somebody.

        Raises:
            SandboxError: If the clone is frozen or the server is gone.
        """
        if self._frozen or self._closed:
            raise SandboxError("A frozen database has no door for anybody.")
        opened, self._spare_party = self._spare_party, None
        if opened is None or opened.broken:
            opened = self._cluster.connect_party(self.name)
        self._clocks.follow(opened)
        return opened

    @property
    def virtual_clock(self) -> bool:
        """Whether the server lets the harness say what time it is."""
        return self._cluster.clock is not None

    def set_clock(self, epoch_s: float, *, seed: int | None = None) -> None:
        """Say what time it is for the agent's sessions, from their next statement on.

        Each reading moves it by a microsecond and each wait by its length; it never
        goes back. Their randomness is a function of the seed and of how much they
        drew; the first call should name one. Costs a few microseconds. Somebody
        else's server keeps its own clock.

        Args:
            epoch_s: In seconds since 1970.
            seed: Any integer; ``None`` goes on with the one before.

        Raises:
            MissingRequirement: If a server of our own has no virtual clock.
        """
        if self._cluster.clockless is not None:
            raise self._cluster.clockless
        self._clocks.set(epoch_s, seed)

    def follow_clock(self, connection: Connection) -> None:
        """Let another session, such as a service's, live by this clock as well.

        Args:
            connection: Open, and of this clone.
        """
        self._clocks.follow(connection)

    def freeze(self) -> tuple[str, ...]:
        """End every session of the agent's; what it did not commit is undone.

        Returns:
            What sessions were in the middle of (``active``, ``idle in
            transaction``, ...) when they were ended, sorted; none if all were idle.
            Then ``prepared`` for each transaction left so.

        Raises:
            SandboxError: If one outlives the deadline.
        """
        if self._frozen:
            return ()
        with boundary(SandboxError, "freezing a database"):
            self._run("ALTER ROLE {} NOLOGIN", self.name)
            states = self._end_sessions()
            for left in prepared(self.admin, self.name):
                undo(self.admin, left)
                states = (*states, "prepared")
        self._frozen = True
        self._close_agents()
        return states

    def end_turn(self, turn: int) -> None:
        """Mark in the log that what was committed up to here is of a turn.

        Raises:
            SandboxError: If the server is gone.
        """
        with boundary(SandboxError, "marking a turn in the ledger"):
            self.admin.execute(
                "SELECT pg_logical_emit_message(false, %s, %s)",
                [TURN_PREFIX, str(turn)],
            )

    def ledger(self, *, limit_messages: int = LIMIT_MESSAGES) -> Ledger:
        """Return what was committed since the clone was made, however often asked.

        A server that gave the log up, because an episode wrote more than it keeps,
        makes an incomplete ledger: an agent can cause that.

        Raises:
            SandboxError: If the server is gone.
        """
        nonce = secrets.token_hex(8)
        with boundary(SandboxError, "reading a ledger"):
            self.admin.execute(
                "SELECT pg_logical_emit_message(false, %s, %s, true)",
                [FLUSH_PREFIX, nonce],
            )
            try:
                found = self.admin.execute(
                    "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, "
                    "NULL, 'proto_version', '1', 'publication_names', %s, "
                    "'messages', 'true') LIMIT %s",
                    [self._slot, PUBLICATION, limit_messages],
                ).fetchall()
            except errors.ObjectNotInPrerequisiteState:
                return Ledger(complete=False)
        return decode((cast("bytes", data) for (data,) in found), until=nonce)

    def diff(self, *, limit_rows: int = LIMIT_ROWS) -> DatabaseDiff:
        """Return how rows and definitions differ from the template's.

        Raises:
            SandboxError: If the clone is not frozen, or the server is gone.
        """
        grader = self.grader()
        with boundary(SandboxError, "comparing a database with its template"):
            return diff(
                grader,
                self.template.baseline(),
                expected=self._settings,
                found=role_settings(self.admin, self.name),
                limit_rows=limit_rows,
            )

    def look(self, *, limit_rows: int = LIMIT_ROWS) -> DatabaseDiff:
        """Return the same of what is committed while the episode lives.

        An agent that holds a table shut cannot stop it: then nothing more than the
        last look is told, since nobody else can have committed to that table.

        Raises:
            SandboxError: If the server is gone.
        """
        if self._frozen:
            return self.diff(limit_rows=limit_rows)
        with boundary(SandboxError, "looking at a living database"):
            if self._onlooker is None:
                self._onlooker = self._cluster.connect_grader(self.name)
            try:
                with self._onlooker.transaction():
                    self._onlooker.execute(_ONLOOKER)
                    self._seen = diff(
                        self._onlooker,
                        self.template.baseline(),
                        expected=self._settings,
                        found=role_settings(self.admin, self.name),
                        limit_rows=limit_rows,
                    )
            except errors.LockNotAvailable:
                return self._seen
        return self._seen

    def grader(self) -> Connection:
        """Return a read-only connection of a role that the agent cannot be.

        It sees ``pg_catalog`` alone without a schema's name. It belongs to the
        clone.

        Raises:
            SandboxError: If the clone is not frozen: until then rows may move.
        """
        if not self._frozen or self._closed:
            raise SandboxError("A database is graded between its freeze and its end.")
        if self._grader is None:
            self._grader = self._cluster.connect_grader(self.name)
        return self._grader

    def when_closed(self, tell: Callable[[], None]) -> None:
        """Have it told, once, that the clone is closed."""
        self._closing.append(tell)

    def close(self) -> None:
        """Leave it; database, role and slot are dropped elsewhere. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._close_agents()
        ours = (self._spare_party, self._grader, self._onlooker, self.admin)
        for connection in ours:
            if connection is not None:
                connection.close()
        self._cluster.discard(self.name)
        for tell in self._closing:
            tell()

    def begin(self) -> None:
        """Make the role, the slot and the first session; once, by `make_clone`."""
        self._make_role()
        self._make_slot()
        self._settings = role_settings(self.admin, self.name)
        self._spare = self._connect_agent()
        if self.access.has_party:
            self._spare_party = self._cluster.connect_party(self.name)

    @property
    def _slot(self) -> str:
        return self.name.replace("-", "_")

    def _make_role(self) -> None:
        reads = self.access.rights is Rights.READ
        statement = sql.SQL(_ROLE).format(
            role=sql.Identifier(self.name),
            password=self._password,
            group=sql.Identifier(self.access.rights.group),
            grader=sql.Identifier(self._cluster.grader),
            party=sql.Identifier(self._cluster.party),
            temp_file_limit=f"{self.access.temp_file_mib}MB",
            privileges=sql.SQL("CONNECT" if reads else "CONNECT, TEMPORARY"),
        )
        self.admin.execute(statement)

    def _make_slot(self) -> None:
        """Make it once no older write is open; one that is too old is ended."""
        limit_s = self.access.transaction_timeout_s
        deadline = time.monotonic() + limit_s + _FREEZE_S
        while True:
            try:
                with self.admin.transaction():
                    self.admin.execute(
                        f"SET LOCAL statement_timeout = {_SLOT_S * 1000:g}"
                    )
                    self.admin.execute(
                        "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')",
                        [self._slot],
                    )
            except errors.QueryCanceled:
                if time.monotonic() > deadline:
                    raise
                self._cluster.lingering.end(self.admin, limit_s=limit_s)
            else:
                return

    def _connect_agent(self) -> Connection:
        return self._cluster.connect(
            self.name,
            user=self.name,
            password=self._password,
            options=options_of(self.access.settings()),
        )

    def _reconnect_agent(self) -> Connection:
        """Connect, even if the agent gave its role another password."""
        try:
            return self._connect_agent()
        except SandboxError:
            statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
            with boundary(SandboxError, "letting an agent in again"):
                self.admin.execute(
                    statement.format(sql.Identifier(self.name), self._password)
                )
            return self._connect_agent()

    def _end_sessions(self) -> tuple[str, ...]:
        deadline = time.monotonic() + _FREEZE_S
        sessions = self.admin.execute(_SESSIONS, [self.name]).fetchall()
        for pid, _ in sessions:
            self.admin.execute("SELECT pg_terminate_backend(%s)", [pid])
        while self.admin.execute(_SESSIONS, [self.name]).fetchone() is not None:
            if time.monotonic() > deadline:
                raise SandboxError("A session of the agent's outlives the freeze.")
            threading.Event().wait(_POLL_S)
        return tuple(sorted(str(state) for _, state in sessions if state != "idle"))

    def _close_agents(self) -> None:
        for connection in (*self._agents, self._spare):
            if connection is not None:
                with contextlib.suppress(psycopg.Error):
                    connection.close()
        self._agents, self._spare = [], None

    def _run(self, statement: LiteralString, *names: str) -> None:
        self.admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def make_clone(admin: Connection, template: Template, access: Access) -> Clone:
    """Clone a template, for one episode.

    Args:
        admin: The superuser's connection that creates it.
        template: What to clone; its cluster drops the clone.
        access: What the agent's role may do.

    Raises:
        SandboxError: If the server is gone, or the template stays busy.
    """
    name = owned_name("e")
    template.clone_to(admin, name)
    try:
        clone = Clone(name, template, access, template.cluster.connect(name))
        with boundary(SandboxError, "preparing a cloned database"):
            clone.begin()
    except BaseException:
        template.cluster.discard(name)
        raise
    return clone
