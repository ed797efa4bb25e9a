"""Accounts in whole cents and the entries between them, in a file of SQLite's."""

from rlvr_envs.tasks.making import whole
from rlvr_envs.tasks.task import Recipe

NAMES = ["ada", "bo", "cem", "dara", "eli", "fay", "gus", "hana", "ivo", "june"]

SCHEMA = """CREATE TABLE accounts (
  name TEXT PRIMARY KEY,
  balance INTEGER NOT NULL
);
CREATE TABLE transfers (
  id INTEGER PRIMARY KEY,
  payer TEXT NOT NULL REFERENCES accounts,
  payee TEXT NOT NULL REFERENCES accounts,
  cents INTEGER NOT NULL CHECK (cents > 0),
  made_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
"""


def generate(rng, number):
    names = [str(name) for name in rng.permutation(NAMES)[: whole(rng, 5, 10)]]
    balances = {name: whole(rng, 20_000, 90_000) for name in sorted(names)}
    last = whole(rng, 3, 9)
    payer, payee, other = names[:3]
    cents = whole(rng, 1_000, 15_000)
    accounts = ", ".join(f"('{name}', {balance})" for name, balance in balances.items())
    entries = ", ".join(
        f"({i}, '{names[i % 3]}', '{names[(i + 1) % 3]}', {100 * i}, '2024-10-{i:02d} 12:00:00')"
        for i in range(1, last + 1)
    )
    script = f"{SCHEMA}INSERT INTO accounts VALUES {accounts};\nINSERT INTO transfers VALUES {entries};\n"
    rows = [
        {"table": "main.accounts", "kind": "update", "key": {"name": payer}, "set": {"balance": balances[payer] - cents}},
        {"table": "main.accounts", "kind": "update", "key": {"name": payee}, "set": {"balance": balances[payee] + cents}},
        {"table": "main.transfers", "kind": "insert", "set": {"payer": payer, "payee": payee, "cents": cents}},
    ]
    return Recipe(
        database=script,
        values={"payer": payer, "payee": payee, "other": other, "cents": cents, "after": balances[payer] - cents},
        hidden={"total": sum(balances.values()), "last": last, "rows": rows},
    )
