"""Two refunds: the payment provider declines one of them."""

from rlvr_envs.envs.sql_rest.services.shop_tables import CUSTOMERS, LINES, ORDERS, SCHEMA, STOCK, repaid
from rlvr_envs.tasks.making import pick, picks, whole
from rlvr_envs.tasks.task import Recipe

REASONS = ["card_expired", "account_closed", "card_reported_lost", "issuer_refused", "payment_too_old", "chargeback_pending"]


def generate(rng, number):
    first = whole(rng, 120, 880)
    orders = [
        (first + i, f"c-{whole(rng, 1, 3)}", "DELIVERED", "2024-03-01", "2024-03-09", "2024-03-08", whole(rng, 4000, 9000), 0, 1)
        for i in range(8)
    ]
    declined, paid, other = picks(rng, orders, 3)
    cents, more = whole(rng, 500, 3500), whole(rng, 500, 3500)
    reason = pick(rng, REASONS)
    customers = [(f"c-{i}", name, f"c{i}@example.org", f"0301234{i}") for i, name in enumerate(["Ida", "Jo", "Kai"], 1)]
    lines = [(order[0], 1, "SKU-1", "lamp", 1, order[6]) for order in orders]
    credit = {"customer_id": declined[1], "order_id": declined[0], "cents": cents, "reason": "declined"}
    refund = {"order_id": paid[0], "cents": more, "reason": "damaged"}
    rows = [
        {"table": "public.credits", "kind": "insert", "set": credit},
        {"table": "public.refunds", "kind": "insert", "set": refund},
        {
            "table": "public.orders",
            "kind": "update",
            "key": {"id": paid[0]},
            "set": {"status": "PARTIALLY_REFUNDED", "refunded_cents": more, "version": 2},
        },
    ]
    requests = [
        {"operation": "create_refund", "parameters": refund},
        {"operation": "create_credit", "parameters": {"order_id": declined[0], "cents": cents, "reason": "declined"}},
    ]
    exchanges = [
        repaid(declined[0], cents, status=402, reason=reason),
        # Whoever asks for less is declined all the same.
        *(repaid(declined[0], part, status=402, reason=reason) for part in (100, cents - 1)),
        repaid(paid[0], more),
        repaid(other[0], 100),
    ]
    return Recipe(
        database=SCHEMA + CUSTOMERS.inserts(customers) + STOCK.inserts([("SKU-1", "lamp", 9)]) + ORDERS.inserts(orders) + LINES.inserts(lines),
        service={"payments": True, "exchanges": exchanges},
        # Which of the two is declined cannot be told from their order in the instruction.
        values={
            "a": min(declined[0], paid[0]),
            "b": max(declined[0], paid[0]),
            "cents_a": cents if declined[0] < paid[0] else more,
            "cents_b": more if declined[0] < paid[0] else cents,
        },
        hidden={
            "reason": reason,
            "rows": rows,
            "requests": requests,
            "declined": declined[0],
            "paid": paid[0],
            "other": other[0],
            "cents": cents,
            "less": cents - 1,
            "more": more,
        },
    )
