"""A parcel came some days after it was promised; the ticket has to be ended in time."""

from datetime import date, timedelta

from rlvr_envs.envs.sql_rest.desk import EPOCH_S, Letter, Order, Policy, desk, euros, ticket
from rlvr_envs.tasks.making import whole


def generate(rng, number):
    late = whole(rng, 2, 9)
    order = Order(whole(rng, 120, 890), [whole(rng, 2_000, 9_000)], date(2024, 2, 10), promised=3, took=3 + late)
    a_day = 50 * whole(rng, 2, 7)
    most = a_day * (6 if number % 2 else 20)
    cents = min(a_day * late, most)
    allowed_s = whole(rng, 12, 15)
    letter = Letter(
        id=f"T-{whole(rng, 1000, 9999)}",
        subject="Far too late",
        message=f"You promised order {order.id} for {order.placed + timedelta(days=3)}. What do I get for the wait?",
        opened_s=EPOCH_S,
        allowed_s=allowed_s,
    )
    shop = desk(rng, order, letter=letter)
    rules = {
        "applies_to": "parcels that came after the day they were promised for",
        "remedy": "Store credit for each day between the two; nothing is refunded.",
        "credit_cents_a_day": a_day,
        "most_cents": most,
        "reason": "late",
        "ending": "Close the ticket before it is due.",
    }
    return ticket(
        shop,
        letter,
        Policy("late-delivery", rules, {"credit_cents": cents}),
        service={},
        facts={"sla": {"deadline_s": letter.opened_s + allowed_s}},
        hidden={
            "cents": cents,
            "euros": euros(cents),
            "more": most + 100,
        },
    )
