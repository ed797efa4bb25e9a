"""A database cluster that the harness is superuser of, its own or somebody's."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import LiteralString, Self

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo

from rlvr_envs.errors import (
    MissingRequirement,
    SandboxError,
    WrongArgument,
    boundary,
)
from rlvr_envs.sandbox.postgres.clocking import ClockTable, Session
from rlvr_envs.sandbox.postgres.dropping import Dropper
from rlvr_envs.sandbox.postgres.lingering import Lingering
from rlvr_envs.sandbox.postgres.naming import is_orphan, own_prefix, owned_name
from rlvr_envs.sandbox.postgres.prepared import Prepared, prepared, undo
from rlvr_envs.sandbox.postgres.roles import OWNER, PARTY, Rights
from rlvr_envs.sandbox.postgres.server import SHARED_MEMORY, EmbeddedServer
from rlvr_envs.sandbox.postgres.usage import UsageTable

Connection = psycopg.Connection[tuple[object, ...]]

_OLDEST = 170_000
_CONNECT_S = 30
_NAMED = (
    "give a superuser's connection string to a cluster that runs, such as "
    "'host=/run/postgresql user=postgres', or none for a server of our own"
)
_REACHED: set[str] = set()
"""Connection strings that worked once in this process."""
_PROBED_S = 86_400
_OF_OTHERS = {"local_preload_libraries": ""}
"""What a role may set for its own later sessions, and would end them at their start."""

_HARNESS = {
    "search_path": "pg_catalog",
    "row_security": "off",
    "timezone": "UTC",
    "datestyle": "ISO,YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "statement_timeout": "0",
}
_PARTY = {"row_security": "on", "lock_timeout": "1s", "statement_timeout": "10s"}

_INTERRUPT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname LIKE %s AND pid <> pg_backend_pid()
"""
_END_OF_LOG = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
_END_SESSIONS = """
SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity WHERE datname = %s
"""
_DROP_SLOTS = """
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
WHERE database = %s AND NOT active
"""
_LAST_SESSION_S = 0.1
_HEED_MS = 1000
_POLL_S = 0.002
_CENSUS = """
SELECT (SELECT count(*) FROM pg_database), (SELECT count(*) FROM pg_roles),
  (SELECT count(*) FROM pg_replication_slots),
  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
"""


class Cluster:
    """Connections to one cluster, its fixed roles, and the end of its databases.

    Args:
        conninfo: How a superuser reaches it, without a database.
        server: What to end with it, if it is this process's own.

    Attributes:
        clock: What sets the wall clock of a session; ``None`` where nothing can.
        clockless: Why a server of our own has none; ``None`` for somebody's.
        usage: What its processes write; ``None`` where they do not tell.
        folder: Where a server of our own keeps its files; ``None`` for somebody's.
        wal_bytes: How long the log was when somebody last asked whether it is alive.
        sizes: In bytes, of each clone as it is made, by the template's name.
        lingering: Ends sessions of agents that block the making of clones, and knows
            those that could not be ended.

    Raises:
        MissingRequirement: If it is too old, keeps no logical log, or the user is
            no superuser.
        WrongArgument: If somebody's was never reached by this process.
        SandboxError: If it cannot be reached any more.
    """

    def __init__(self, conninfo: str, server: EmbeddedServer | None = None) -> None:
        self._conninfo = conninfo
        self._server = server
        self._password = secrets.token_hex(16)
        self.grader = owned_name("g")
        self.party = owned_name("p")
        self._closed = False
        self._filler: Connection | None = None
        self._filling = threading.Lock()
        self.lingering = Lingering(undo=self._undo)
        self.clock: ClockTable | None = None
        self.usage: UsageTable | None = None
        self.folder = server.folder if server else None
        self.wal_bytes = 0
        self.sizes: dict[str, int] = {}
        self.clockless = server.clockless if server else None
        self.admin = self._reach()
        try:
            with boundary(SandboxError, "preparing the database cluster"):
                _require(self.admin)
                self._sweep()
                self._make_roles()
                self._find_clock()
        except BaseException:
            self.admin.close()
            raise
        self._dropper = Dropper(self._drop, again=self._drop_left)

    @classmethod
    def start(cls, parent: Path = SHARED_MEMORY) -> Self:
        """Start a server of this process's own, with its data below a folder."""
        server = EmbeddedServer(parent)
        try:
            return cls(server.conninfo, server)
        except BaseException:
            server.close()
            raise

    def _reach(self) -> Connection:
        """Open the first connection; what once was reached breaks as a world does."""
        try:
            admin = self.connect("postgres")
        except SandboxError as error:
            if self._server is not None or self._conninfo in _REACHED:
                raise
            reason = " ".join(str(error.__cause__).split()).rstrip(".?")
            raise WrongArgument(
                f"The database that was named cannot be used: {reason}.",
                remedy=_NAMED,
            ) from error
        _REACHED.add(self._conninfo)
        return admin

    @property
    def alive(self) -> bool:
        """Whether it can be used: open, its server running, and not born again.

        Looks how long the log is by now, as well. A server that lost a process to a signal ends all sessions and goes on.
        """
        if self._closed or not (self._server is None or self._server.alive):
            return False
        try:
            row = self.admin.execute(_END_OF_LOG).fetchone()
        except psycopg.Error:
            return False
        self.wal_bytes = int(str(row[0])) if row else 0
        return True

    @property
    def worn(self) -> bool:
        """Whether our own server runs what cannot be ended, so that another should."""
        return self._server is not None and bool(self.lingering.left)

    def connect(
        self, database: str, *, user: str = "", password: str = "", options: str = ""
    ) -> Connection:
        """Open a connection in autocommit mode.

        Args:
            database: Its name, as it is.
            user: The superuser by default, in a session that no name of a seed's
                can lead astray.
            password: For clusters that ask for one.
            options: Settings as the server's command line takes them.

        Raises:
            SandboxError: If the server is gone or refuses.
        """
        settings = {
            "dbname": database,
            "options": options_of(_OF_OTHERS if user else _HARNESS) + options,
            "connect_timeout": str(_CONNECT_S),
        }
        if user:
            settings |= {"user": user, "password": password}
        with boundary(SandboxError, "connecting to the database server"):
            return psycopg.connect(
                make_conninfo(self._conninfo, **settings), autocommit=True
            )

    def connect_grader(self, database: str) -> Connection:
        """Open a connection as a role that reads all, writes nothing, owns nothing."""
        options = options_of({**_HARNESS, "default_transaction_read_only": "on"})
        return self.connect(
            database, user=self.grader, password=self._password, options=options
        )

    def connect_party(self, database: str) -> Connection:
        """Open a connection as a role that reads and writes rows, and owns nothing.

        It is who else writes beside the agent, a service say. Waiting for a lock that
        the agent holds is an error of the statement.
        """
        options = options_of({**_HARNESS, **_PARTY})
        return self.connect(
            database, user=self.party, password=self._password, options=options
        )

    def filler(self) -> Connection:
        """Return the connection on which clones are made, apart from all others."""
        with self._filling:
            if self._filler is None or self._filler.closed:
                self._filler = self.connect("postgres")
            return self._filler

    def databases(self) -> tuple[str, ...]:
        """Return the names of all databases, sorted."""
        rows = self.admin.execute("SELECT datname FROM pg_database ORDER BY 1")
        return tuple(str(name) for (name,) in rows.fetchall())

    def roles(self) -> tuple[str, ...]:
        """Return the names of all roles but the server's own, sorted."""
        rows = self.admin.execute(
            "SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY 1"
        )
        return tuple(str(name) for (name,) in rows.fetchall())

    def census(self) -> Mapping[str, int]:
        """Return how many databases, roles, slots and sessions there are."""
        row = self.admin.execute(_CENSUS).fetchone() or (0, 0, 0, 0)
        names = ("databases", "roles", "slots", "sessions")
        return dict(zip(names, (int(str(count)) for count in row), strict=True))

    def discard(self, database: str) -> None:
        """Drop a database and the role of its name, later and elsewhere."""
        self._dropper.put(database)

    def settle(self) -> None:
        """Wait until everything discarded is gone, but for what `lingering` has left.

        Raises:
            SandboxError: If something could not be dropped.
        """
        self._dropper.join()

    def interrupt(self) -> None:
        """Let nothing wait any more: end our server, or else our own sessions in it.

        Who uses what is left of it is told that the server is gone. What episodes
        left open in somebody else's cluster is swept by the next process.
        """
        if self._server is not None:
            self._server.close()
            return
        with contextlib.suppress(psycopg.Error):
            self.admin.execute(_INTERRUPT, [f"{own_prefix()}%"])

    def close(self) -> None:
        """Drop what is this process's, end the server if it is; idempotent."""
        if self._closed:
            return
        self._closed = True
        self._dropper.close()
        try:
            if self._server is None:
                self._leave()
        finally:
            if self._filler is not None:
                self._filler.close()
            self.admin.close()
            if self._server is not None:
                self._server.close()

    def _leave(self) -> None:
        with boundary(SandboxError, "leaving the database cluster"):
            self._drop_role(self.grader)
            self._drop_role(self.party)

    def _find_clock(self) -> None:
        """Believe in a virtual clock once a session was seen to live by it."""
        table = self._server.clock if self._server else None
        if table is None:
            return
        with self.connect("postgres") as probe:
            table.set(Session(probe.info.backend_pid), epoch_s=_PROBED_S, seed=0)
            row = probe.execute("SELECT extract(epoch FROM now())::bigint").fetchone()
        if row == (_PROBED_S,):
            self.clock = table
            self.usage = self._server.usage if self._server else None
        else:
            self.clockless = MissingRequirement(
                "The database server did not load its virtual clock.",
                remedy="set TMPDIR to a folder whose programs may run.",
            )

    def _sweep(self) -> None:
        for name in filter(is_orphan, self.databases()):
            self._drop(name)
        orphans = filter(is_orphan, self.roles())
        for name in sorted(set(orphans) - set(self.lingering.left)):
            self._drop_role(name)

    def _make_roles(self) -> None:
        with self.admin.transaction():
            self.admin.execute("SELECT pg_advisory_xact_lock(hashtext('rlvr roles'))")
            known = set(self.roles())
            for role in (OWNER, PARTY, *(rights.group for rights in Rights)):
                if role not in known:
                    self._run("CREATE ROLE {} NOLOGIN", role)
            for less, more in itertools.pairwise(Rights):
                self._run("GRANT {} TO {}", less.group, more.group)
        statement = sql.SQL(
            "CREATE ROLE {} LOGIN NOINHERIT BYPASSRLS PASSWORD {}; "
            "GRANT pg_read_all_data TO {} WITH INHERIT TRUE, SET FALSE"
        ).format(
            sql.Identifier(self.grader), self._password, sql.Identifier(self.grader)
        )
        self.admin.execute(statement)
        party = sql.SQL(
            "CREATE ROLE {} LOGIN PASSWORD {}; "
            "GRANT {}, {} TO {} WITH INHERIT TRUE, SET FALSE"
        ).format(
            sql.Identifier(self.party),
            self._password,
            sql.Identifier(Rights.WRITE.group),
            sql.Identifier(PARTY),
            sql.Identifier(self.party),
        )
        self.admin.execute(party)

    def _drop(self, database: str) -> None:
        """Drop it, or leave it for later while a session in it heeds nobody."""
        try:
            self._drop_database(database)
        except errors.ObjectInUse:
            self.lingering.leave(database)
            self.admin.execute(_DROP_SLOTS, [database])
        else:
            self._drop_role(database)
            self.lingering.forget(database)

    def _drop_left(self) -> bool:
        """Try again; return whether something is left even so."""
        for database in self.lingering.left:
            if not self._is_entered(database):
                self._drop(database)
        return bool(self.lingering.left)

    def _undo(self, found: Prepared) -> None:
        with self.connect(found.database) as inside:
            undo(inside, found)

    def _drop_database(self, name: str) -> None:
        for found in prepared(self.admin, name):
            self._undo(found)
        # The server looks but every 100 ms whether the last session has ended.
        deadline = time.monotonic() + _LAST_SESSION_S
        while time.monotonic() < deadline and self._is_entered(name):
            threading.Event().wait(_POLL_S)
        if self._is_entered(name):
            told = self.admin.execute(_END_SESSIONS, [_HEED_MS, name]).fetchall()
            if not all(ended for (ended,) in told):
                raise errors.ObjectInUse(f"a session in {name} heeds nobody")
        self._run("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _is_entered(self, name: str) -> bool:
        found = self.admin.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = %s LIMIT 1", [name]
        )
        return found.fetchone() is not None

    def _drop_role(self, name: str) -> None:
        self._run("DROP ROLE IF EXISTS {}", name)

    def _run(self, statement: LiteralString, *names: str) -> None:
        self.admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def is_busy(error: psycopg.Error) -> bool:
    """Whether a template was refused because a session is in it (55006)."""
    return isinstance(error, errors.ObjectInUse)


def options_of(settings: Mapping[str, str]) -> str:
    """Return settings as the server's command line takes them; no value has a blank."""
    return "".join(f" -c {name}={value}" for name, value in settings.items())


def _require(admin: Connection) -> None:
    row = admin.execute(
        "SELECT current_setting('server_version_num')::int, rolsuper, "
        "current_setting('wal_level') FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    version, superuser, wal_level = row or (0, False, "")
    wants = {
        "PostgreSQL 17 or newer": isinstance(version, int) and version >= _OLDEST,
        "a superuser": superuser is True,
        "wal_level=logical": wal_level == "logical",
    }
    missing = [name for name, had in wants.items() if not had]
    if missing:
        raise MissingRequirement(
            f"The database cluster lacks {', '.join(missing)}.",
            remedy="give the DSN of one that has it, or none to start our own server.",
        )
