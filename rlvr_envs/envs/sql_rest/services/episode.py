"""What a service's routes work on: one episode's database, clock, names and sink."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, Request
from psycopg.rows import dict_row

from rlvr_envs.envs.sql_rest.services.recorded import Recorded
from rlvr_envs.envs.sql_rest.services.sink import Sink
from rlvr_envs.sandbox.postgres.cluster import Connection

Row = Mapping[str, Any]


class Episode:
    """Everything that differs between two episodes of one service.

    Args:
        connection: Of a role that writes rows and owns nothing; in autocommit mode,
            owned by the episode.
        clock: Returns the time in seconds since 1970.
        settings: Of the instance.
        sink: Takes the webhooks.
        recorded: Answers for other companies.

    Attributes:
        key: Idempotency key of the present request; empty if it carries none.
        turn: Of the present request.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], float],
        settings: Mapping[str, Any],
        sink: Sink,
        recorded: Recorded,
    ) -> None:
        self.connection = connection
        self.clock_s = clock
        self.settings = settings
        self.sink = sink
        self.recorded = recorded
        self.key = ""
        self.turn = 0
        self._names: Counter[str] = Counter()

    def next_id(self, prefix: str) -> str:
        """Return the next identifier: the same in every episode that did the same."""
        self._names[prefix] += 1
        return f"{prefix}_{self._names[prefix]:04}"

    def now(self) -> datetime:
        """Return the episode's time."""
        return datetime.fromtimestamp(self.clock_s(), UTC)

    def rows(self, statement: str, *values: Any) -> Sequence[Row]:
        """Run a statement of qualified names and return what it gives back."""
        with self.connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def row(self, statement: str, *values: Any) -> Row | None:
        """Return the first row; ``None`` if there is none."""
        return next(iter(self.rows(statement, *values)), None)

    def insert(self, table: str, **values: Any) -> Row:
        """Insert a row and return it whole.

        Args:
            table: Qualified name, of our own.
            values: By column; names are our own too.
        """
        names, places = ", ".join(values), ", ".join(["%s"] * len(values))
        statement = f"INSERT INTO {table} ({names}) VALUES ({places}) RETURNING *"  # noqa: S608 (our names)
        made = self.row(statement, *values.values())
        assert made is not None  # noqa: S101 (an insert returns its row)
        return made


async def _of(request: Request) -> Episode:
    episode: Episode = request.state.episode
    return episode


Here = Annotated[Episode, Depends(_of)]
"""What a route takes to work on the episode of its request."""
