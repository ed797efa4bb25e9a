"""An order of several lines, one of which came broken; the warehouse is out at times."""

from datetime import date, timedelta

from rlvr_envs.envs.sql_rest.desk import Order, desk
from rlvr_envs.tasks.making import pick, picks, whole
from rlvr_envs.tasks.task import Recipe


def generate(rng, number):
    cents = 4250 if number == 0 else whole(rng, 400, 9_000)
    others = [cents + whole(rng, 1, 9_000) for _ in range(whole(rng, 1, 3))]
    prices = picks(rng, [cents, *others], len(others) + 1)
    order = Order(170 if number == 0 else whole(rng, 120, 890), prices, date(2024, 2, 12) + timedelta(days=whole(rng, 0, 12)))
    shop = desk(rng, order)
    refund = {"table": "public.refunds", "kind": "insert", "set": {"order_id": order.id, "cents": cents, "reason": "damaged"}}
    row = {
        "table": "public.orders",
        "kind": "update",
        "key": {"id": order.id},
        "set": {"status": "PARTIALLY_REFUNDED", "refunded_cents": cents, "version": 2},
    }
    return Recipe(
        database=shop.script(refunds={"reasons": ["damaged", "late"]}),
        service={"sink": {"statuses": pick(rng, [[503], [503, 502], []]) if number else [503]}},
        values={"order": order.id, "name": shop.name, "title": shop.lines[prices.index(cents)][0]},
        hidden={
            "cents": cents,
            "less": cents - 1,
            "other": shop.neighbour,
            "rows": [row, refund],
            "told": {"event": "order.refunded", "order_id": order.id, "refunded_cents": cents},
        },
    )
