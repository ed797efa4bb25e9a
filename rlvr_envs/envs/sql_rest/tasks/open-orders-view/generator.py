"""Customers and their orders, some of which are open."""

from rlvr_envs.tasks.making import pick, picks, whole
from rlvr_envs.tasks.task import Recipe

NAMES = ["Ada Novak", "Bo Li", "Chloë Roux", "Dag Berg", "Eun Ji", "Fatou Sow"]
STATUSES = ["open", "open", "shipped", "cancelled"]


def generate(rng, number):
    names = picks(rng, NAMES, 4)
    rows = [
        (i, whole(rng, 1, 4), pick(rng, STATUSES), f"{whole(rng, 500, 90000) / 100:.2f}")
        for i in range(1, whole(rng, 12, 24))
    ]
    opened = [[i, names[who - 1], {"decimal": total}] for i, who, status, total in rows if status == "open"]
    return Recipe(
        database=SCRIPT.format(
            customers=",\n".join(f"({i}, '{name}')" for i, name in enumerate(names, 1)),
            orders=",\n".join(f"({i}, {who}, '{status}', {total})" for i, who, status, total in rows),
        ),
        values={"ids": ", ".join(str(row[0]) for row in opened)},
        hidden={"rows": opened},
    )


SCRIPT = """CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL);
INSERT INTO customers VALUES
{customers};
CREATE TABLE orders (
  id int PRIMARY KEY,
  customer_id int NOT NULL REFERENCES customers (id),
  status text NOT NULL,
  total numeric(10,2) NOT NULL
);
INSERT INTO orders VALUES
{orders};
"""
