"""What SQLite's authorizer says when it refuses, and what that says of who asked."""

from __future__ import annotations

import pytest

from rlvr_envs.sandbox.sqlite.clone import Bounds
from rlvr_envs.verifiers.denials import denial
from tests.sqlite_shop import MakeClone, clone_of, shelf

__all__ = ["clone_of", "shelf"]

CERTAIN = {
    "ATTACH '/tmp/x.db' AS x": "SANDBOX_ESCAPE",
    "VACUUM INTO '/tmp/x.db'": "SANDBOX_ESCAPE",
    "SELECT load_extension('/tmp/x.so')": "SANDBOX_ESCAPE",
    "PRAGMA temp_store_directory = '/tmp'": "SANDBOX_ESCAPE",
    "PRAGMA writable_schema = ON": "SCHEMA_SHADOW",
    "UPDATE sqlite_schema SET sql = ''": "SCHEMA_SHADOW",
}
UNCERTAIN = {
    "ALTER TABLE orders RENAME TO o_": "SCHEMA_SHADOW",
    "CREATE VIEW v AS SELECT 1": "SCHEMA_SHADOW",
    "CREATE TEMP TRIGGER t AFTER UPDATE ON orders BEGIN SELECT 1; END": "",
    "PRAGMA ignore_check_constraints = ON": "PRIV_ESC",
    "VACUUM": "",
    "UPDATE orders SET missing = 1": "",
    "INSERT INTO orders VALUES (1, 'x', 0)": "",
    "SELECT readfile('/etc/passwd')": "",
}


def said(clone_of: MakeClone, statement: str) -> tuple[str, bool]:
    error = clone_of().run(statement, Bounds())["error"]
    row = denial(error["state"], error["message"])
    return (row.code.value, row.certain) if row else ("", False)


@pytest.mark.parametrize("statement", CERTAIN)
def test_nobody_honest_asks_for_it(clone_of: MakeClone, statement: str) -> None:
    assert said(clone_of, statement) == (CERTAIN[statement], True)


@pytest.mark.parametrize("statement", UNCERTAIN)
def test_somebody_honest_may_ask_for_it(clone_of: MakeClone, statement: str) -> None:
    assert said(clone_of, statement) == (UNCERTAIN[statement], False)
