"""An order that two clerks refund at the same time."""

from rlvr_envs.envs.sql_rest.services import shop_tables as shop
from rlvr_envs.tasks.making import pick, picks, whole
from rlvr_envs.tasks.task import Recipe

NAMES = ["Ada Novak", "Bo Lind", "Chloë Martin", "Eun Park", "Fatou Diallo"]
GOODS = [("LAMP-1", "Desk lamp"), ("KETTLE-2", "Kettle"), ("CLOCK-3", "Wall clock")]


def generate(rng, number):
    first = whole(rng, 150, 800)
    customers = [[f"C-{301 + n}", name, f"c{n}@example.org", f"555-01{n:02}"] for n, name in enumerate(picks(rng, NAMES, 4))]
    orders, lines = [], []
    for place in range(8):
        sku, title = pick(rng, GOODS)
        cents = whole(rng, 60, 200) * 50
        orders.append([first + place, pick(rng, customers)[0], "DELIVERED", "2024-02-20", "2024-02-27", "2024-02-26", cents, 0, whole(rng, 1, 4)])
        lines.append([first + place, 1, sku, title, 1, cents])
    place = whole(rng, 1, 6)
    order, paid, version = orders[place][0], orders[place][6], orders[place][8]
    # Little enough that whoever does not look can pay it twice.
    total = whole(rng, 16, paid // 100) * 50
    others = whole(rng, 3, total // 50 - 3) * 50
    rest = total - others
    rows = {
        shop.CUSTOMERS: customers,
        shop.STOCK: [[sku, title, 5] for sku, title in GOODS],
        shop.ORDERS: orders,
        shop.LINES: lines,
    }
    made = f"rf_desk{whole(rng, 2, 9)}"
    rival = [
        f"UPDATE public.orders SET refunded_cents = refunded_cents + {others}, status = 'PARTIALLY_REFUNDED', version = version + 1 WHERE id = {order}",
        f"INSERT INTO public.refunds VALUES ('{made}', {order}, {others}, 'damaged', '2024-03-04 09:00:02+00')",
    ]
    wanted = [
        {
            "table": "public.orders",
            "kind": "update",
            "key": {"id": order},
            "set": {"refunded_cents": total, "status": "PARTIALLY_REFUNDED", "version": version + 2},
        },
        {"table": "public.refunds", "kind": "insert", "key": {"id": made}, "set": {"order_id": order, "cents": others, "reason": "damaged"}},
        {"table": "public.refunds", "kind": "insert", "key": {"id": "rf_0001"}, "set": {"order_id": order, "cents": rest, "reason": "damaged"}},
    ]
    return Recipe(
        database=shop.database(rows),
        service={"rivals": [{"before": "first_write", "statements": rival}]},
        values={"order": order, "neighbour": orders[place - 1][0], "total": total, "euros": f"{total / 100:.2f}", "version": version},
        hidden={
            "order": order,
            "total": total,
            "rest": rest,
            "less_one": rest - 1,
            "newer": version + 1,
            "last": version + 2,
            "rows": wanted,
        },
    )
