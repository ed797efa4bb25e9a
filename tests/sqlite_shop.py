"""The shop of `tests.databases` for the second engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rlvr_envs.sandbox.sqlite.clone import Access, Bounds, Clone, make_clone
from rlvr_envs.sandbox.sqlite.seeds import Seed
from rlvr_envs.sandbox.sqlite.shelf import Shelf

SHOP = Seed("""
CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL, total NUMERIC);
INSERT INTO orders WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20)
  SELECT i, 'open', i * 10 FROM n;
CREATE TABLE notes (body TEXT);
INSERT INTO notes VALUES ('same'), ('same'), (NULL);
CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INTEGER) WITHOUT ROWID;
INSERT INTO accounts VALUES ('ada', 250), ('bob', 0);
CREATE TABLE strict_accounts (id INTEGER PRIMARY KEY, balance INTEGER) STRICT;
INSERT INTO strict_accounts VALUES (1, 250);
CREATE TABLE lines (id INTEGER PRIMARY KEY, of INTEGER NOT NULL REFERENCES orders,
  at TEXT DEFAULT CURRENT_TIMESTAMP, token BLOB DEFAULT (randomblob(4)));
CREATE INDEX lines_of ON lines (of);
""")

MakeClone = Callable[..., Clone]


@pytest.fixture(scope="session")
def shelf() -> Iterator[Shelf]:
    """A folder of the tests' own, in memory."""
    shelf = Shelf()
    yield shelf
    shelf.close()


@pytest.fixture
def clone_of(shelf: Shelf) -> Iterator[MakeClone]:
    """Make copies of the shop; they are closed afterwards."""
    made = []

    def make(rights: str = "write", *define: str, seed: Seed = SHOP) -> Clone:
        access = Access(rights, define)
        clone = make_clone(shelf, shelf.template(seed), access)
        made.append(clone)
        return clone

    yield make
    for clone in made:
        clone.close()


def rows(clone: Clone, statement: str, *, lasting: bool = True) -> Any:
    """Run a statement that must succeed; return its rows."""
    answer = clone.run(statement, Bounds(), lasting=lasting)
    assert not answer["lost"]
    assert answer["error"] is None, answer["error"]
    return answer["rows"]


def refused(clone: Clone, statement: str, *, lasting: bool = True) -> str:
    """Run a statement that must fail; return its state."""
    answer = clone.run(statement, Bounds(), lasting=lasting)
    assert answer["error"] is not None, statement
    return str(answer["error"]["state"])


def is_clean(clone: Clone) -> bool:
    """Freeze a clone and say whether it is as it was."""
    clone.freeze()
    return clone.diff().empty and not clone.ledger().changes
