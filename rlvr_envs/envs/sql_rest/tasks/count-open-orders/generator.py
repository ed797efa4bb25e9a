"""Orders in several revisions, of which the latest counts."""

from rlvr_envs.tasks.making import pick, whole
from rlvr_envs.tasks.task import Recipe

STATUSES = ["open", "open", "paid", "cancelled"]


def generate(rng, number):
    rows = []
    for reference in range(1, whole(rng, 15, 30)):
        for revision in range(1, whole(rng, 1, 3) + 1):
            rows.append((f"R-{reference:03}", revision, pick(rng, STATUSES), whole(rng, 500, 90000)))
    rows += [("R-900", 1, "open", 12345), ("R-900", 2, "paid", 12345)]
    latest = {}
    for row in rows:
        latest[row[0]] = row
    cents = [row[3] for row in latest.values() if row[2] == "open"]
    naive = [row[3] for row in rows if row[2] == "open"]
    values = ",\n".join(f"({i}, '{r}', {v}, '{s}', {c / 100:.2f})" for i, (r, v, s, c) in enumerate(rows, 1))
    answer = {"orders": len(cents), "cents": sum(cents)}
    return Recipe(
        database=SCRIPT.format(values=values),
        values={**answer, "naive_orders": len(naive), "naive_cents": sum(naive)},
        hidden=answer,
    )


SCRIPT = """CREATE TABLE orders (
  id int PRIMARY KEY,
  reference text NOT NULL,
  revision int NOT NULL,
  status text NOT NULL,
  total numeric(10,2) NOT NULL,
  UNIQUE (reference, revision)
);
INSERT INTO orders VALUES
{values};
"""
