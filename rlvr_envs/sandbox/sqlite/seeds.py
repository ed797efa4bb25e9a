"""What a database starts from: one SQL script, and the digest of it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from rlvr_envs.errors import SnapshotError
from rlvr_envs.records import digest_of
from rlvr_envs.sandbox.sqlite.inside.functions import Stream, install

EPOCH_S = 1_767_225_600
"""When a script runs that names no other time: the first moment of 2026, UTC."""

_TOLD_CHARS = 400


@dataclass(frozen=True, slots=True)
class Seed:
    """A database as the SQL that makes it.

    Attributes:
        script: What the engine's shell takes, without its dot commands.
        epoch_s: What time it is while it runs, in whole seconds since 1970.
    """

    script: str
    epoch_s: int = EPOCH_S

    @property
    def digest(self) -> str:
        """``sha256:...`` of script and time, wherever they came from."""
        return digest_of(["sqlite seed", self.script, str(self.epoch_s)])

    def build(self, path: Path) -> tuple[str, ...]:
        """Run the script into a new file, which nobody may write to afterwards.

        Returns:
            Names of the tables and views, in lower case, sorted.

        Raises:
            SnapshotError: If the engine refuses a statement, or a foreign key of
                the rows does not hold.
        """
        fresh = path.with_name(f"{path.name}.new")
        fresh.unlink(missing_ok=True)
        connection = sqlite3.connect(fresh, isolation_level=None)
        try:
            names = self._run(connection)
        except sqlite3.Error as error:
            text = str(error)[:_TOLD_CHARS]
            raise SnapshotError(f"The seed's SQL fails: {text}.") from error
        finally:
            connection.close()
        fresh.chmod(0o444)
        fresh.replace(path)
        return names

    def _run(self, connection: sqlite3.Connection) -> tuple[str, ...]:
        stream = Stream()
        stream.epoch_s = float(self.epoch_s)
        install(connection, stream)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(self.script)
        broken = connection.execute("PRAGMA foreign_key_check").fetchone()
        if broken is not None:
            raise SnapshotError(
                f"The seed's table {broken[0]} has a row without its {broken[2]}."
            )
        # Readers and a writer do not wait for each other.
        connection.execute("PRAGMA journal_mode = WAL")
        rows = connection.execute(
            "SELECT lower(name) FROM sqlite_schema WHERE type IN ('table', 'view') "
            "ORDER BY 1"
        )
        return tuple(str(name) for (name,) in rows)
