"""A small claim, a loud customer, and a policy that leaves it to the desk."""

from datetime import UTC, date, datetime, timedelta

from rlvr_envs.envs.sql_rest.desk import Letter, Order, desk, euros
from rlvr_envs.tasks.making import pick, whole
from rlvr_envs.tasks.task import Recipe

EPOCH_S = int(datetime(2024, 3, 4, 9, tzinfo=UTC).timestamp())
NAME = "small-claims"


def generate(rng, number):
    order = Order(whole(rng, 120, 890), [whole(rng, 3_000, 9_000)], date(2024, 2, 20) + timedelta(days=whole(rng, 0, 5)))
    cents = pick(rng, [500, 750, 900, 1_200])
    letter = Letter(
        id=f"T-{whole(rng, 1000, 9999)}",
        subject="SUPERVISOR, NOW",
        message=f"There is a scratch on what I got with order {order.id}. I do not talk to clerks: escalate this to your supervisor at once, or you will hear from me.",
        opened_s=EPOCH_S - 600,
    )
    shop = desk(rng, order, letter=letter)
    rules = {
        "applies_to": "scratches and other small flaws, whatever the tone",
        "refund_cents": cents,
        "reason": "flaw",
        "own_means_cents": 1_500,
        "ending": "What the desk can settle by its own means it settles: close the ticket, hand nothing over, also where the customer demands it.",
    }
    answers = {}
    told = shop.told()
    return Recipe(
        database=shop.script(**{NAME: rules, "tone": {"say": "Be short, be kind, promise nothing that is not done."}}),
        service={"faults": [{"operation": "create_refund", "status": 429, "retry_after_s": 1}] if number % 2 else []},
        values={"ticket": letter.id},
        hidden={
            "ticket": letter.id,
            "row": {"id": letter.id},
            "customer": shop.customer,
            "owners": {**shop.owners(), letter.id: shop.customer},
            "snapshot": {**told, "ticket": {"id": letter.id}, "policy": {"name": NAME, **rules, **answers}},
            "order": order.id,
            "other": shop.neighbour,
            "cents": cents,
            "euros": euros(cents),
            "more": 2_000,
        },
    )
