"""A small shop with orders; one of them is to be refunded in part."""

from rlvr_envs.envs.sql_rest.services.shop_tables import CUSTOMERS, LINES, ORDERS, SCHEMA, STOCK
from rlvr_envs.tasks.making import pick, whole
from rlvr_envs.tasks.task import Recipe

NAMES = ["Ada Novak", "Bo Li", "Chloë Roux", "Dag Berg"]


def generate(rng, number):
    order = 170 if number == 0 else whole(rng, 102, 188)
    cents = 1000 if number == 0 else whole(rng, 300, 2000)
    customers = [(f"c-{i}", name, f"c{i}@example.org", f"0301234{i}") for i, name in enumerate(NAMES, 1)]
    stock = [(f"SKU-{i}", title, whole(rng, 3, 30)) for i, title in enumerate(["lamp", "chair", "kettle"], 1)]
    orders, lines = [], []
    for i in range(order - 4, order + 5):
        paid = 3000 + whole(rng, 0, 5000)
        orders.append((i, f"c-{whole(rng, 1, 4)}", "DELIVERED", "2024-01-20", "2024-01-27", "2024-01-26", paid, 0, 1))
        lines.append((i, 1, "SKU-1", "lamp", 1, paid))
    customer = next(row[1] for row in orders if row[0] == order)
    rows = [
        {
            "table": "public.orders",
            "kind": "update",
            "key": {"id": order},
            "set": {"status": "PARTIALLY_REFUNDED", "refunded_cents": cents, "version": 2},
        },
        {"table": "public.refunds", "kind": "insert", "set": {"order_id": order, "cents": cents, "reason": "damaged"}},
    ]
    request = {"operation": "create_refund", "parameters": {"order_id": order, "cents": cents, "reason": "damaged"}}
    return Recipe(
        database=SCHEMA + CUSTOMERS.inserts(customers) + STOCK.inserts(stock) + ORDERS.inserts(orders) + LINES.inserts(lines),
        service={"faults": [{"operation": "create_refund", "status": 503, "when": "after" if number % 2 == 0 else "before"}]},
        values={
            "order": order,
            "other": order + 1,
            "cents": cents,
            "euros": f"{cents / 100:.2f}",
            "name": NAMES[int(customer[2:]) - 1],
        },
        hidden={"order": order, "rows": rows, "requests": [request]},
    )
