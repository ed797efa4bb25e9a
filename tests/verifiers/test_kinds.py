from __future__ import annotations

from typing import Any

import pytest

from rlvr_envs.verifiers import KINDS, validate_options

GOOD: dict[str, dict[str, Any]] = {
    "file_content": {"path": "/app/x", "equals": {"hidden": "answer"}},
    "pytest": {"tests": ["test_a.py"], "import_from": "/app"},
    "command": {"argv": ["true"], "count": {"pattern": "ok", "expected": 1}},
    "ast_diff": {"path": "/app", "forbid_nodes": ["While"]},
    "system_files": {"paths": [{"path": "/x", "mode": "0640"}]},
    "sql_invariant": {
        "statement": "SELECT status FROM public.orders WHERE id = %(id)s",
        "values": {"id": {"hidden": "id"}},
        "expect": {"scalar": "shipped"},
    },
    "sql_rows": {
        "rows": [{"table": "public.orders", "kind": "update", "key": {"id": 3}}]
    },
    "webhook": {"name": "refund.created", "body": {"order_id": {"hidden": "id"}}},
    "rest_audit": {"writes": [{"operation": "create_refund", "times": 1}]},
    "answer": {"type": "integer", "equals": {"hidden": "open_orders"}},
    "told": {"values": {"hidden": "facts"}},
    "refund": {"rows": {"hidden": "rows"}, "webhook": {"name": "refund.created"}},
    "ticket": {
        "case": "case.yaml",
        "snapshot": {"hidden": "snapshot"},
        "ticket": {
            "name": "T-1",
            "customer": {"hidden": "customer"},
            "table": "public.tickets",
            "key": {"id": {"hidden": "ticket"}},
            "status": "status",
        },
        "operations": {"get_order": {"category": "observe"}},
    },
    "foreign_keys": {},
}

BAD: list[tuple[str, dict[str, Any]]] = [
    ("file_content", {"path": "app/x", "equals": ""}),
    ("file_content", {"path": "/app/x"}),
    ("file_content", {"path": "/app/x", "regex": "("}),
    ("file_content", {"path": "/app/x", "equals": "", "normalize": []}),
    ("pytest", {"tests": []}),
    ("pytest", {"tests": ["../test_a.py"]}),
    ("pytest", {"tests": ["/etc/test_a.py"]}),
    ("command", {"argv": []}),
    ("command", {"argv": ["x"], "user": 5}),
    ("ast_diff", {"path": "/app"}),
    ("ast_diff", {"path": "/app", "forbid_nodes": ["Loop"]}),
    ("system_files", {"paths": [{"path": "/x", "mode": "rw"}]}),
    ("sql_invariant", {"statement": "SELECT 1 AS one"}),
    (
        "sql_invariant",
        {"statement": "SELECT 1", "expect": {"scalar": 1, "empty": True}},
    ),
    ("sql_invariant", {"statement": "SELECT 1 FROM orders", "expect": {"scalar": 1}}),
    ("sql_rows", {"rows": [{"table": "orders", "kind": "update"}]}),
    ("sql_rows", {"rows": [{"table": "public.orders", "kind": "truncate"}]}),
    ("webhook", {"name": "x", "times": -1}),
    ("rest_audit", {"writes": [{"path": "/x"}]}),
    ("answer", {"type": "integer"}),
    ("answer", {"type": "integer", "equals": 2.5}),
    ("answer", {"type": "decimal", "equals": 2.5}),
    ("answer", {"type": "text", "equals": "x", "schema": True}),
    ("answer", {"type": "json", "schema": {"type": "wish"}}),
    ("told", {"values": [""]}),
    ("refund", {"rows": []}),
    ("ticket", {**GOOD["ticket"], "operations": {"pay": {"category": "mutate"}}}),
    ("foreign_keys", {"required": [{"table": "lines"}]}),
    ("telepathy", {}),
]


def test_every_kind_has_good_options() -> None:
    assert GOOD.keys() == KINDS.keys()
    for kind, options in GOOD.items():
        validate_options(kind, options)


@pytest.mark.parametrize(("kind", "options"), BAD)
def test_wrong_options_are_named(kind: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=kind):
        validate_options(kind, options)
