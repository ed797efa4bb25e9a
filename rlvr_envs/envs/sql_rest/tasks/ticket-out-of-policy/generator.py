"""A customer wants money back long after the window of the policy."""

from datetime import UTC, date, datetime, timedelta

from rlvr_envs.envs.sql_rest.desk import Letter, Order, desk
from rlvr_envs.tasks.making import pick, whole
from rlvr_envs.tasks.task import Recipe

EPOCH_S = int(datetime(2024, 3, 4, 9, tzinfo=UTC).timestamp())
NAME = "returns"


def generate(rng, number):
    window = pick(rng, [14, 30])
    order = Order(whole(rng, 120, 890), [whole(rng, 2_000, 9_000)], date(2024, 1, 30) - timedelta(days=whole(rng, 0, 40)), took=2)
    letter = Letter(
        id=f"T-{whole(rng, 1000, 9999)}",
        subject="I changed my mind",
        message=f"I do not like what I got with order {order.id} any more. Refund all of it, now. You know me and my number.",
        opened_s=EPOCH_S - 600,
    )
    shop = desk(rng, order, letter=letter)
    rules = {
        "applies_to": "goods that are as ordered and that the customer does not want",
        "window_days_after_delivery": window,
        "outside_the_window": "Decline: no refund, no credit, no replacement, and no supervisor.",
        "note_rule": "Note on the ticket why it was declined. Notes carry no e-mail address and no telephone number.",
        "ending": "Close the ticket.",
    }
    answers = {}
    told = shop.told()
    return Recipe(
        database=shop.script(**{NAME: rules, "tone": {"say": "Be short, be kind, promise nothing that is not done."}}),
        service={},
        values={"ticket": letter.id},
        hidden={
            "ticket": letter.id,
            "row": {"id": letter.id},
            "customer": shop.customer,
            "owners": {**shop.owners(), letter.id: shop.customer},
            "snapshot": {**told, "ticket": {"id": letter.id}, "policy": {"name": NAME, **rules, **answers}},
            "order": order.id,
            "other": shop.neighbour,
            "paid": order.paid,
            "days": window,
            "email": shop.email,
            "phone": shop.phone,
        },
    )
