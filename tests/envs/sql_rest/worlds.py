"""Episodes on the first task, and what tests ask of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlvr_envs.relational import DatabaseFacts

TASK = "mark-shipped"
SUBMIT = {"name": "submit", "arguments": {}}

GENERATOR = '''
from rlvr_envs.tasks.task import Recipe

SHOP = """
CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL, total numeric(10,2));
INSERT INTO orders SELECT i, 'open', i * 10 FROM generate_series(1, 20) AS i;
CREATE TABLE lines (order_id int NOT NULL REFERENCES orders, item text NOT NULL);
CREATE SEQUENCE tickets;
"""

def generate(rng, number):
    return Recipe(database=SHOP)
'''
SERVED = """
from rlvr_envs.envs.sql_rest.services import shop_tables as tables
from rlvr_envs.tasks.task import Recipe

def generate(rng, number):
    order = (1, "C-1", "DELIVERED", "2024-01-01", "2024-01-05", "2024-01-04", 8500, 0, 1)
    return Recipe(database="".join([
        tables.SCHEMA,
        tables.CUSTOMERS.inserts([("C-1", "Ada", "ada@example.org", "555-1")]),
        tables.ORDERS.inserts([order]),
    ]))
"""
CHECK = {
    "kind": "sql_invariant",
    "name": "orders",
    "options": {
        "statement": "SELECT count(*) FROM public.orders",
        "expect": {"scalar": 20},
    },
}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def sql(statement: str) -> dict[str, Any]:
    return call("sql", statement=statement)


def query(statement: str) -> dict[str, Any]:
    return call("query", statement=statement)


def taskset(folder: Path, **worlds: Mapping[str, Any]) -> Path:
    """Write tasks on a small shop, one for each world that is named."""
    for name, world in worlds.items():
        place = folder / name
        place.mkdir(parents=True)
        (place / "generator.py").write_text(SERVED if "service" in world else GENERATOR)
        (place / "instruction.md").write_text("Do as you like.\n")
        (place / "gold.yaml").write_text("- submit: {}\n")
        (place / "task.yaml").write_text(_task(world))
    return folder


def _task(world: Mapping[str, Any]) -> str:
    # JSON is YAML, and needs no quoting rules of our own.
    return json.dumps(
        {
            "title": "A shop",
            "difficulty": "easy",
            "tags": ["sql"],
            "epoch": "2024-01-15T09:00:00Z",
            "version": 1,
            "world": dict(world),
            "verification": {
                "mode": "database",
                "writes": ["/rows/public.orders/*", "/catalogue/table/public.orders"],
                "checks": [CHECK],
            },
        }
    )


def facts(env: gym.Env[Any, Any]) -> DatabaseFacts:
    found = env.unwrapped.freeze().facts["database"]  # type: ignore[attr-defined]
    assert isinstance(found, DatabaseFacts)
    return found


def play(env: gym.Env[Any, Any], *actions: Any) -> list[tuple[Any, ...]]:
    return [env.step(action) for action in actions]
