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
from rlvr_envs.sandbox.postgres.bounds import OUTLIVED, Bounds, database_bytes
from rlvr_envs.sandbox.postgres.catalogue import role_settings
from rlvr_envs.sandbox.postgres.clocking import SessionClocks
from rlvr_envs.sandbox.postgres.cluster import Connection, options_of
from rlvr_envs.sandbox.postgres.decoding import FLUSH_PREFIX, TURN_PREFIX, decode
from rlvr_envs.sandbox.postgres.differing import LIMIT_ROWS, diff
from rlvr_envs.sandbox.postgres.naming import owned_name
from rlvr_envs.sandbox.postgres.prepared import prepared, undo
from rlvr_envs.sandbox.postgres.preparing import PUBLICATION
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.showing import shown_diff, shown_ledger
from rlvr_envs.sandbox.postgres.templates import Template

LIMIT_MESSAGES = 1_000_000
"""How much of a ledger is read, in messages of the server's log."""

OLDEST_BYTES = 1 << 30
"""How much others may have written before a clone is used: a quarter of what is kept."""

_FREEZE_S = 30.0
_POLL_S = 0.002
_SLOT_S = 1.0
_HEED_MS = 5000
_LOCK: LiteralString = "SET lock_timeout = '100ms'"

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
_END_ONE = """
SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity
WHERE pid = %s AND usename = %s
"""
_END_ALL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s
"""
_MAKE_SLOT = """
SELECT pg_wal_lsn_diff(lsn, '0/0')::bigint
FROM pg_create_logical_replication_slot(%s, 'pgoutput')
"""


class Clone:
    """One database, one role of the same name, one slot. Made by `make_clone`.

    Attributes:
        name: Of the database and of the agent's role; it differs between runs, so
            that observations must not show it.
        admin: The superuser's connection, inside.
        overruns: Which limits of the server the agent went beyond, in words; such an
            episode has no door any more, and cannot win.
        began_bytes: How long the server's log was when the ledger began.
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
        self._agents: list[tuple[int, Connection]] = []
        self._clocks = SessionClocks(self._cluster.clock, access.memory_mib << 20)
        self._bounds: Bounds | None = None
        self.overruns: tuple[str, ...] = ()
        self.began_bytes = 0
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
            SandboxError: If the clone is frozen, a limit was gone beyond, or the
                server is gone.
        """
        if self._frozen or self._closed or self.overruns:
            raise SandboxError("A frozen database has no door for an agent.")
        opened, self._spare = self._spare, None
        if opened is None or opened.broken:
            opened = self._reconnect_agent()
        self._enter(opened)
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
    def stale(self) -> bool:
        """Whether it stood ready while others wrote so much that its ledger may be cut.

        By the last look at the server, which each lease takes anyway.
        """
        return self._cluster.wal_bytes - self.began_bytes > OLDEST_BYTES

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

    def check(self, took_s: float) -> None:
        """Hold what the agent uses against its limits, once a statement is over.

        Beyond one, its sessions are ended and `overruns` says so.

        Args:
            took_s: How long the statement took.

        Raises:
            SandboxError: If the server is gone.
        """
        if self._bounds is not None and not self.overruns:
            with boundary(SandboxError, "measuring a database"):
                self._stop(self._bounds.after(took_s))

    def watch(self) -> bool:
        """Look at the same while a statement runs; return whether it may go on.

        Raises:
            SandboxError: If the server is gone.
        """
        if self._bounds is not None and not self.overruns:
            with boundary(SandboxError, "measuring a database"):
                self._stop(self._bounds.log() or self._bounds.disk())
        return not self.overruns

    def give_up(self, connection: Connection) -> None:
        """End a session that did not heed a cancel; note it if it heeds nothing.

        Raises:
            SandboxError: If the server is gone.
        """
        pids = [pid for pid, known in self._agents if known is connection]
        with boundary(SandboxError, "ending a session"):
            for pid in pids:
                told = self.admin.execute(_END_ONE, [_HEED_MS, pid, self.name])
                if told.fetchone() == (False,):
                    self._cluster.lingering.leave(self.name)
                    self._stop(OUTLIVED)

    def freeze(self, *, limit_s: float = _FREEZE_S) -> tuple[str, ...]:
        """End every session of the agent's; what it did not commit is undone.

        A session that heeds nobody within the limit is left to the server, and
        `overruns` says so: what it holds may still be committed, but wins nothing.

        Args:
            limit_s: How long a session may take to end.

        Returns:
            What sessions were in the middle of (``active``, ``idle in
            transaction``, ...) when they were ended, sorted; none if all were idle.
            Then ``prepared`` for each transaction left so.

        Raises:
            SandboxError: If the server is gone.
        """
        if self._frozen:
            return ()
        self.watch()
        with boundary(SandboxError, "freezing a database"):
            states = self._end_sessions(limit_s)
            self._shut_out()
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

        Where the server gave the log up, an agent that wrote too much has an incomplete
        ledger. That of its neighbours is lost, too.

        Raises:
            SandboxError: If the server is gone, or gave up what others filled.
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
            except errors.ObjectNotInPrerequisiteState as error:
                if self.overruns:
                    return Ledger(complete=False)
                raise SandboxError(
                    "The server gave up the log of a database: others wrote too much."
                ) from error
        written = decode((cast("bytes", data) for (data,) in found), until=nonce)
        return shown_ledger(written, self.name)

    def diff(self, *, limit_rows: int = LIMIT_ROWS) -> DatabaseDiff:
        """Return how rows and definitions differ from the template's.

        It is incomplete where a session that could not be ended holds a table shut.

        Raises:
            SandboxError: If the clone is not frozen, or the server is gone.
        """
        grader = self.grader()
        with boundary(SandboxError, "comparing a database with its template"):
            try:
                return self._differing(grader, limit_rows)
            except errors.LockNotAvailable:
                return DatabaseDiff(complete=False)

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
                    self._seen = self._differing(self._onlooker, limit_rows)
            except errors.LockNotAvailable:
                return self._seen
        return self._seen

    def _differing(self, reader: Connection, limit_rows: int) -> DatabaseDiff:
        found = diff(
            reader,
            self.template.baseline(),
            expected=self._settings,
            found=role_settings(self.admin, self.name),
            limit_rows=limit_rows,
        )
        return shown_diff(found, self.name)

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
            if OUTLIVED in self.overruns:
                with boundary(SandboxError, "preparing to grade a database"):
                    self._grader.execute(_LOCK)
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
        sizes, template = self._cluster.sizes, self.template.name
        if template not in sizes:
            sizes[template] = database_bytes(self.admin)
        self._bounds = Bounds(
            self.admin,
            self.access,
            base_bytes=sizes[template],
            usage=self._cluster.usage,
            folder=self._cluster.folder,
        )
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
                    made = self.admin.execute(_MAKE_SLOT, [self._slot]).fetchone()
            except errors.QueryCanceled:
                if time.monotonic() > deadline:
                    raise
                self._cluster.lingering.end(self.admin, limit_s=limit_s)
                if self._cluster.worn:
                    raise
            else:
                self.began_bytes = int(str(made[0])) if made else 0
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

    def _enter(self, connection: Connection) -> None:
        """Count a session, and no longer those that were lost."""
        lost = [(pid, known) for pid, known in self._agents if known.closed]
        self._agents = [(pid, known) for pid, known in self._agents if not known.closed]
        pid = connection.info.backend_pid
        self._agents.append((pid, connection))
        if self._bounds is not None:
            for gone, _ in lost:
                self._bounds.leave(gone)
            self._bounds.follow(pid)

    def _stop(self, overrun: str) -> None:
        """Let the agent do nothing any more; an empty text is no reason to."""
        if overrun:
            self.overruns = (*self.overruns, overrun)
            self.admin.execute(_END_ALL, [self.name])

    def _shut_out(self) -> None:
        """Close the role; one that a session holds, which cannot be ended, stays."""
        try:
            with self.admin.transaction():
                self.admin.execute("SET LOCAL lock_timeout = '5s'")
                self._run("ALTER ROLE {} NOLOGIN", self.name)
        except errors.LockNotAvailable:
            if OUTLIVED not in self.overruns:
                raise

    def _end_sessions(self, limit_s: float) -> tuple[str, ...]:
        # One that was given up has had its time.
        deadline = time.monotonic() + (0 if OUTLIVED in self.overruns else limit_s)
        sessions = self.admin.execute(_SESSIONS, [self.name]).fetchall()
        for pid, _ in sessions:
            self.admin.execute("SELECT pg_terminate_backend(%s)", [pid])
        while self.admin.execute(_SESSIONS, [self.name]).fetchone() is not None:
            if time.monotonic() > deadline:
                self._cluster.lingering.leave(self.name)
                self.overruns = tuple(dict.fromkeys((*self.overruns, OUTLIVED)))
                break
            threading.Event().wait(_POLL_S)
        return tuple(sorted(str(state) for _, state in sessions if state != "idle"))

    def _close_agents(self) -> None:
        for connection in (*(known for _, known in self._agents), self._spare):
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
    except BaseException:
        template.cluster.discard(name)
        raise
    try:
        with boundary(SandboxError, "preparing a cloned database"):
            clone.begin()
    except BaseException:
        clone.close()
        raise
    return clone
