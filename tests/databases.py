"""One server for all tests of databases, and a small shop to fill it with."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.templates import Template

SHOP = Seed("""
CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL, total numeric(10,2));
INSERT INTO orders SELECT i, 'open', i * 10 FROM generate_series(1, 20) AS i;
CREATE TABLE notes (body text);
INSERT INTO notes VALUES ('same'), ('same'), (NULL);
CREATE TABLE readings (id int PRIMARY KEY, price numeric, weight double precision);
INSERT INTO readings VALUES (1, 1.0, 0), (2, 2.5, 1.5);
CREATE SEQUENCE tickets;
""")

READ_ONLY_ATTACKS = (
    "COMMIT; UPDATE orders SET status='paid'; SELECT 1",
    "/*hi*/ COMMIT; DELETE FROM orders",
    "COPY (SELECT 1) TO PROGRAM 'touch {file}'",
    "SELECT pg_read_file('/etc/passwd')",
    "SET ROLE postgres",
    "SET default_transaction_read_only=off; UPDATE orders SET total=0",
    "INSERT INTO notes VALUES ('x')",
    "CREATE TEMP TABLE orders (id int)",
    "SELECT nextval('tickets')",
)

MakeClone = Callable[..., Clone]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A server of the tests' own, in memory."""
    try:
        cluster = Cluster.start()
    except MissingRequirement as error:
        pytest.skip(str(error))
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def shop(cluster: Cluster) -> Iterator[Template]:
    """The small shop as a template."""
    template = Template(cluster, SHOP)
    yield template
    template.close()


@pytest.fixture
def clone_of(cluster: Cluster, shop: Template) -> Iterator[MakeClone]:
    """Make clones of the shop; they are closed afterwards."""
    made = []

    def make(rights: Rights = Rights.WRITE) -> Clone:
        clone = make_clone(cluster.filler(), shop, Access(rights))
        made.append(clone)
        return clone

    yield make
    for clone in made:
        clone.close()
    cluster.settle()
