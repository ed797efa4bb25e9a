"""Seeds as templates: loaded once, closed to everybody, found by their digest."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import LiteralString

import psycopg
from psycopg import sql

from rlvr_envs.errors import SandboxError, SnapshotError, boundary
from rlvr_envs.records import digest_of
from rlvr_envs.relational import CatalogueEntry
from rlvr_envs.sandbox.postgres import preparing
from rlvr_envs.sandbox.postgres.catalogue import catalogue
from rlvr_envs.sandbox.postgres.clocking import Session
from rlvr_envs.sandbox.postgres.cluster import Cluster, Connection, is_busy
from rlvr_envs.sandbox.postgres.hashing import Table, fingerprints, sizes, tables
from rlvr_envs.sandbox.postgres.naming import TEMPLATE_PREFIX, owned_name
from rlvr_envs.sandbox.postgres.roles import OWNER
from rlvr_envs.sandbox.postgres.seeds import Seed

_BUSY_S = 30.0
_RETRY_S = 0.02

_CREATE: LiteralString = (
    "CREATE DATABASE {} OWNER {} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C' "
    "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8'"
)
_CLONE: LiteralString = "CREATE DATABASE {} OWNER {} TEMPLATE {} STRATEGY FILE_COPY"


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a template holds, as clones of it are compared with.

    Attributes:
        connection: The grader's, in a clone that nobody else enters.
        fingerprints: Table to the digest of its rows.
        sizes: Table to the room that it takes, in bytes.
        took_s: How long its rows took to digest.
    """

    connection: Connection
    catalogue: tuple[CatalogueEntry, ...]
    tables: tuple[Table, ...]
    fingerprints: Mapping[str, str]
    sizes: Mapping[str, int]
    took_s: float


class Template:
    """A seed in a cluster, ready to be cloned. Built if it is not there yet.

    Args:
        cluster: It outlives the template.

    Raises:
        SnapshotError: If the seed's SQL fails.
        SandboxError: If the server does.
    """

    def __init__(self, cluster: Cluster, seed: Seed) -> None:
        self.cluster = cluster
        self.digest = digest_of([seed.digest, _preparation()])
        self.name = TEMPLATE_PREFIX + self.digest.removeprefix("sha256:")[:32]
        self._lock = threading.Lock()
        self._reference = ""
        self._baseline: Baseline | None = None
        with boundary(SandboxError, "making a template database"):
            self._ensure(seed)

    def clone_to(self, admin: Connection, name: str) -> None:
        """Create a copy; a session that sits in the template is waited for.

        Raises:
            SandboxError: If it stays busy.
        """
        statement = sql.SQL(_CLONE).format(
            *map(sql.Identifier, (name, OWNER, self.name))
        )
        with boundary(SandboxError, "cloning a database"):
            unless_busy(lambda: admin.execute(statement))

    def baseline(self) -> Baseline:
        """Return what clones are compared with; read at the first call."""
        with self._lock, boundary(SandboxError, "reading a template's rows"):
            if self._baseline is None:
                self._baseline = self._read()
            return self._baseline

    def close(self) -> None:
        """Let go of the reference copy; the template stays. Idempotent."""
        with self._lock:
            baseline, self._baseline = self._baseline, None
            if baseline is not None:
                baseline.connection.close()
            if self._reference:
                self.cluster.discard(self._reference)
                self._reference = ""

    def drop(self) -> None:
        """Remove it from the cluster; only where nobody else uses it."""
        self.close()
        with boundary(SandboxError, "dropping a template database"):
            self._alter(self.name, "IS_TEMPLATE false")
            self.cluster.discard(self.name)

    def _ensure(self, seed: Seed) -> None:
        admin = self.cluster.connect("postgres")
        try:
            # Two processes of one cluster may want the same seed.
            admin.execute("SELECT pg_advisory_lock(hashtext(%s))", [self.name])
            known = "SELECT 1 FROM pg_database WHERE datname = %s"
            if admin.execute(known, [self.name]).fetchone() is None:
                self._build(seed, admin)
        finally:
            admin.close()

    def _build(self, seed: Seed, admin: Connection) -> None:
        name = owned_name("b")
        admin.execute(sql.SQL(_CREATE).format(*map(sql.Identifier, (name, OWNER))))
        try:
            self._load(seed, name)
        except (SnapshotError, psycopg.Error):
            self.cluster.discard(name)
            raise
        self._alter(name, "ALLOW_CONNECTIONS false")
        rename = sql.SQL("ALTER DATABASE {} RENAME TO {}").format(
            sql.Identifier(name), sql.Identifier(self.name)
        )
        unless_busy(lambda: admin.execute(rename))
        self._alter(self.name, "IS_TEMPLATE true")

    def _load(self, seed: Seed, database: str) -> None:
        path = "-c search_path=public,pg_catalog"
        with self.cluster.connect(database, options=f" {path} -c role={OWNER}") as own:
            if self.cluster.clock is not None:
                session = Session(own.info.backend_pid)
                self.cluster.clock.set(session, epoch_s=seed.epoch_s, seed=0)
            seed.load(own)
        with self.cluster.connect(database) as admin:
            preparing.prepare(admin, given=seed.given)

    def _alter(self, name: str, what: LiteralString) -> None:
        statement = sql.SQL("ALTER DATABASE {} ").format(sql.Identifier(name))
        self.cluster.admin.execute(statement + sql.SQL(what))

    def _read(self) -> Baseline:
        self._reference = owned_name("r")
        self.clone_to(self.cluster.admin, self._reference)
        connection = self.cluster.connect_grader(self._reference)
        found = tables(connection)
        entries = catalogue(connection)
        room = sizes(connection, found)
        begun = time.monotonic()
        totals = fingerprints(connection, found)
        took_s = time.monotonic() - begun
        return Baseline(connection, entries, found, totals, room, took_s)


def unless_busy(action: Callable[[], object]) -> None:
    """Do it, and again for as long as the server says that a database is in use."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            action()
        except psycopg.Error as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            threading.Event().wait(_RETRY_S)
        else:
            return


@cache
def _preparation() -> str:
    """Return a digest of our own part, so that an old template is not taken."""
    return hashlib.sha256(Path(preparing.__file__).read_bytes()).hexdigest()
