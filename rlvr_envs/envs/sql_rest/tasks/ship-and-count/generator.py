"""Orders and their lines; one order is to be shipped, the open ones counted."""

from rlvr_envs.tasks.making import pick, whole
from rlvr_envs.tasks.task import Recipe

STATUSES = ["open", "open", "open", "paid", "cancelled"]


def generate(rng, number):
    order = 3 if number == 0 else whole(rng, 2, 9)
    count = whole(rng, 12, 30)
    rows = [
        (i, "open" if i == order else pick(rng, STATUSES), f"{whole(rng, 500, 90000) / 100:.2f}")
        for i in range(1, count + 1)
    ]
    lines = [(i, whole(rng, 1, count), whole(rng, 1, 4)) for i in range(1, 2 * count)]
    opened = sum(status == "open" for _, status, _ in rows) - 1
    total = rows[order - 1][2]
    changed = {"table": "public.orders", "kind": "update", "key": {"id": order}, "set": {"status": "shipped"}}
    return Recipe(
        database=SCRIPT.format(
            orders=",\n".join(f"({i}, '{status}', {total})" for i, status, total in rows),
            lines=",\n".join(f"({i}, {of}, {quantity})" for i, of, quantity in lines),
        ),
        values={"order": order, "open": opened, "before": opened + 1, "other": order - 1},
        hidden={"order": order, "open": opened, "rows": [changed], "left": [["shipped", {"decimal": total}]]},
    )


SCRIPT = """CREATE TABLE orders (
  id int PRIMARY KEY,
  status text NOT NULL,
  total numeric NOT NULL
);
INSERT INTO orders VALUES
{orders};
CREATE TABLE lines (
  id int PRIMARY KEY,
  order_id int NOT NULL REFERENCES orders (id),
  quantity int NOT NULL
);
INSERT INTO lines VALUES
{lines};
"""
