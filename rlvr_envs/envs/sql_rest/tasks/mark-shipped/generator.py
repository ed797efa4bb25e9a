"""A table of orders, of which one is to be marked."""

from rlvr_envs.tasks.making import pick, whole
from rlvr_envs.tasks.task import Recipe

STATUSES = ["open", "open", "paid", "packed", "cancelled"]


def generate(rng, number):
    count = whole(rng, 8, 20)
    order = whole(rng, 2, count - 1)
    rows = [
        (i, "packed" if i == order else pick(rng, STATUSES), whole(rng, 500, 90000))
        for i in range(1, count + 1)
    ]
    values = ",\n".join(f"({i}, '{status}', {cents / 100:.2f})" for i, status, cents in rows)
    script = f"""CREATE TABLE orders (
  id int PRIMARY KEY,
  status text NOT NULL CHECK (status IN ('open', 'paid', 'packed', 'shipped', 'cancelled')),
  total numeric(10,2) NOT NULL
);
INSERT INTO orders VALUES
{values};
"""
    changed = {"table": "public.orders", "kind": "update", "key": {"id": order}, "set": {"status": "shipped"}}
    return Recipe(
        database=script,
        values={"order": order, "other": order - 1},
        hidden={"order": order, "rows": [changed]},
    )
