"""The server and the shop that tests of databases share."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("psycopg"):
    from tests.databases import clone_of, cluster, shop

    __all__ = ["clone_of", "cluster", "shop"]
else:
    # Told by the one test that is left.
    collect_ignore_glob = ["test_[!i]*.py"]
