"""A stale folder, some data, and a report that skips a row."""

from rlvr_envs.tasks.making import text, whole
from rlvr_envs.tasks.task import Recipe

REPORT = """import csv

rows = list(csv.DictReader(open("/app/data/sales.csv")))
print(sum(int(row["amount"]) for row in rows))
"""


def generate(rng, number):
    amounts = [whole(rng, 1, 99) for _ in range(6)]
    rows = "".join(f"item-{index},{n}\n" for index, n in enumerate(amounts))
    data = f"name,amount\n{rows}"
    return Recipe(
        files=(
            text("/app/data/sales.csv", data),
            text("/app/report.py", REPORT.replace("in rows)", "in rows[1:])")),
            text("/app/build/report.o", "stale\n"),
        ),
        values={"total": sum(amounts)},
        hidden={"data": data, "report": REPORT},
    )
