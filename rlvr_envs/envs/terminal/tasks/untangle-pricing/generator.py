"""A tangled pricing module with other numbers in each instance, and its prices."""

import copy

from rlvr_envs.tasks.making import pick, text, whole
from rlvr_envs.tasks.task import Recipe

MODULE = '''"""What an order costs. Do not touch."""

RATES = {{"food": {food}, "book": {book}}}
LAST = None
SEEN = []
COUNT = 0
bulk = False


def quote(items, customer, coupon=None):
    global LAST, COUNT, bulk
    total = 0
    lines = []
    COUNT = COUNT + 1
    if not items:
        raise ValueError("nothing to price")
    for item in items:
        if item["quantity"] <= 0:
            raise ValueError("bad quantity for " + item["sku"])
        else:
            if item["sku"] in SEEN:
                extra = {repeat}
            else:
                SEEN.append(item["sku"])
                extra = 0
            p = item["price_cents"] * item["quantity"]
            if item["quantity"] >= {bulk_from}:
                bulk = True
                if customer.get("level") == "gold":
                    p = p - p * {bulk_gold} // 100
                else:
                    if customer.get("level") == "silver":
                        p = p - p * {bulk_silver} // 100
                    else:
                        p = p - p * {bulk_plain} // 100
            else:
                if customer.get("level") == "gold":
                    p = p - p * {gold} // 100
            p = p - p * extra // 100
            if "category" in item:
                if item["category"] in RATES:
                    r = RATES[item["category"]]
                else:
                    if item["category"] == "gift":
                        r = 0
                        if item["quantity"] == 1:
                            p = p + {wrap}
                    else:
                        r = {rate}
            else:
                r = {rate}
            t = (p * r + 50) // 100
            lines.append((item["sku"], p, t))
            total = total + p + t
    off = 0
    if coupon is not None:
        if coupon.startswith("MINUS"):
            try:
                off = int(coupon[5:]) * 100
            except ValueError:
                raise ValueError("bad coupon " + coupon)
            if off > total // 2:
                off = total // 2
        else:
            if coupon == "{word}":
                if not bulk:
                    off = total * {word_off} // 100
            else:
                raise ValueError("bad coupon " + coupon)
    total = total - off
    if customer.get("country", "{home}") == "{home}":
        if total >= {free_from}:
            ship = 0
        else:
            ship = {ship_home}
    else:
        ship = {ship_abroad}
        if total >= {free_from} * 2:
            ship = ship // 2
        if bulk:
            ship = ship + {heavy}
    LAST = total + ship
    return {{"lines": lines, "discount": off, "shipping": ship, "total": total + ship}}
'''


def generate(rng, number):
    numbers = {
        "food": whole(rng, 5, 9), "book": whole(rng, 4, 7), "rate": whole(rng, 17, 22), "repeat": whole(rng, 3, 12),
        "bulk_from": whole(rng, 6, 12), "bulk_gold": whole(rng, 15, 20), "bulk_silver": whole(rng, 10, 14),
        "bulk_plain": whole(rng, 5, 9), "gold": whole(rng, 2, 4), "wrap": whole(rng, 150, 450), "word_off": whole(rng, 5, 15),
        "free_from": whole(rng, 40, 70) * 100, "ship_home": whole(rng, 300, 600), "ship_abroad": whole(rng, 900, 1900),
        "heavy": whole(rng, 200, 800), "word": pick(rng, ["SPRING", "THANKS", "FRIENDS"]), "home": pick(rng, ["AT", "NL", "PT", "FI"]),
    }
    source = MODULE.format(**numbers)
    public = {"longest": 16, "functions": 6, "depth": 2}
    return Recipe(
        files=(text("/app/pricing.py", source),),
        values=public,
        hidden={**public, "source": source, "word": numbers["word"], "home": numbers["home"], "bulk_from": numbers["bulk_from"]},
    )


def _price(source, order):
    """What the tangled module answers in a fresh process."""
    namespace = {}
    exec(source, namespace)
    items, customer, coupon = copy.deepcopy(order)
    try:
        result = namespace["quote"](items, customer, coupon)
    except ValueError as error:
        return {"error": str(error)}
    return {**result, "lines": [list(line) for line in result["lines"]]}


def _item(rng, bulk_from):
    item = {"sku": f"S{whole(rng, 1, 6)}", "price_cents": whole(rng, 1, 4_000), "quantity": whole(rng, 1, bulk_from + 2)}
    if whole(rng, 0, 25) == 0:
        item["quantity"] = whole(rng, -1, 0)
    category = pick(rng, ["food", "book", "gift", "toy", None])
    return {**item, "category": category} if category else item


def _order(rng, secret):
    bulk_from = pick(rng, [secret["bulk_from"], 3])
    items = [_item(rng, bulk_from) for _ in range(pick(rng, [0, 1, 1, 2, 3, 5, 7]))]
    customer = {}
    if whole(rng, 0, 3):
        customer["level"] = pick(rng, ["gold", "silver", "plain"])
    if whole(rng, 0, 2):
        customer["country"] = pick(rng, [secret["home"], "US"])
    coupon = pick(rng, [None, None, secret["word"], secret["word"], "MINUS5", "MINUS200", "MINUSx", "minus5", ""])
    return [items, customer, coupon]


def hidden(rng, recipe):
    orders = [_order(rng, recipe.hidden) for _ in range(120)]
    return {"cases": [{"order": order, "price": _price(recipe.hidden["source"], order)} for order in orders], "source": ""}
