"""A chain's sales around the end of a month, with what tills and people do to them."""

import json
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal

from rlvr_envs.tasks.making import pick, picks, whole
from rlvr_envs.tasks.tables import Table
from rlvr_envs.tasks.task import Recipe

SCHEMA = """CREATE TABLE shops (code text PRIMARY KEY, region text);
CREATE TABLE sales (
  id int PRIMARY KEY,
  receipt text NOT NULL,
  shop text NOT NULL,
  booked_at timestamptz NOT NULL,
  currency char(3) NOT NULL,
  gross numeric NOT NULL,
  training boolean NOT NULL
);
CREATE TABLE refunds (id int PRIMARY KEY, sale_id int NOT NULL REFERENCES sales (id), amount numeric NOT NULL, void_at timestamptz);
CREATE TABLE rates (currency char(3) NOT NULL, valid_from date NOT NULL, euros numeric NOT NULL, PRIMARY KEY (currency, valid_from));
"""
SHOPS = Table("public.shops", ("code", "region"))
SALES = Table("public.sales", ("id", "receipt", "shop", "booked_at", "currency", "gross", "training"))
REFUNDS = Table("public.refunds", ("id", "sale_id", "amount", "void_at"))
RATES = Table("public.rates", ("currency", "valid_from", "euros"), key=2)
REGIONS = ["north", "south", "west", "east"]
CENT = Decimal("0.01")
NAN = Decimal("NaN")
# Berlin's offset at the month's begin and end, in hours.
MONTHS = {"March": (3, 1, 2), "October": (10, 2, 1), "July": (7, 2, 2), "May": (5, 2, 2)}
CHANGES = (datetime(2024, 3, 31, 1, tzinfo=timezone.utc), datetime(2024, 10, 27, 1, tzinfo=timezone.utc))


def _berlin(moment):
    summer = CHANGES[0] <= moment < CHANGES[1]
    return moment.astimezone(timezone(timedelta(hours=2 if summer else 1)))


def _bounds(month, first, last):
    begin = datetime(2024, month, 1, tzinfo=timezone(timedelta(hours=first)))
    following = datetime(2024, month + 1, 1, tzinfo=timezone(timedelta(hours=last)))
    return begin.astimezone(timezone.utc), following.astimezone(timezone.utc)


def _rates(rng, month):
    rows = []
    for currency, near in (("CHF", 1040), ("GBP", 1170)):
        for year, name, day in ((2023, 12, 31), (2024, month, 2 + whole(rng, 0, 5)), (2024, month, 12), (2024, month, 20), (2024, month + 1, 1)):
            rows.append([currency, f"{year}-{name:02}-{day:02}", Decimal(near * 100 + whole(rng, -2500, 2500)).scaleb(-5)])
    return rows


def _sales(rng, shops, begin, end):
    rows = []
    span = int((end - begin).total_seconds())
    for number in range(1, 241):
        when = begin + timedelta(seconds=whole(rng, -span // 8, span + span // 8))
        if number % 12 == 0:  # near the borders, where offsets decide
            when = pick(rng, [begin, end]) + timedelta(minutes=whole(rng, -170, 170))
        gross = NAN if number % 29 == 0 else Decimal(whole(rng, 100, 90000)).scaleb(-2)
        shop = pick(rng, shops)[0]
        currency = pick(rng, ["EUR", "CHF", "GBP"])
        rows.append([number, f"R{1000 + number}", pick(rng, [shop, shop, f"{shop} "]), when, currency, gross, whole(rng, 0, 15) == 0])
    for place in picks(rng, range(len(rows)), 24):
        again = [len(rows) + 1, *rows[place][1:]]
        if whole(rng, 0, 1):
            again[5] = Decimal(whole(rng, 100, 90000)).scaleb(-2)
        if whole(rng, 0, 3) == 0:
            again[3] = again[3] + timedelta(days=40)
        rows.append(again)
    return rows


def _certain(rows, shops, begin, end):
    """Sales that each rule turns on, whatever chance brought."""
    code = shops[0][0]
    for when, gross, training in (
        (begin + timedelta(minutes=20), Decimal("811.11"), False),  # the month before, by UTC
        (end - timedelta(minutes=20), Decimal("512.22"), False),
        (end + timedelta(minutes=20), Decimal("333.33"), False),  # the month itself, by UTC
        (end + timedelta(days=3), NAN, False),
        (begin + timedelta(days=3), NAN, False),
        (begin + timedelta(days=4), NAN, True),
        (begin + timedelta(days=5), Decimal("77.70"), False),
        (begin + timedelta(days=11, minutes=20), Decimal("444.44"), False),  # the day before, by UTC
        (begin + timedelta(days=21), Decimal("0.25"), False),
    ):
        rows.append([len(rows) + 1, f"R{1000 + len(rows) + 1}", code, when, "CHF", gross, training])
    rows.append([len(rows) + 1, *rows[-2][1:5], Decimal("78.90"), False])
    return rows


def _busy(sales, shop, begin):
    """Sales that make a shop of small turnover the busiest one, with the largest sale."""
    first = len(sales) + 1
    amounts = [Decimal("1250.00"), *(Decimal(cents).scaleb(-2) for cents in range(11, 56))]
    for place, gross in enumerate(amounts, start=first):
        sales.append([place, f"R{1000 + place}", shop, begin + timedelta(days=2, minutes=place), "EUR", gross, False])


def _refunds(rng, sales):
    rows = []
    for place in picks(rng, range(len(sales) - 3), 40):
        gross = sales[place][5]
        part = Decimal(5) if gross.is_nan() else (gross / whole(rng, 2, 5)).quantize(CENT)
        void = "2024-11-01 09:00:00+01" if whole(rng, 0, 3) == 0 else None
        rows.append([len(rows) + 1, sales[place][0], part, void])
    rows.append([len(rows) + 1, sales[-1][0], Decimal("1.10"), None])
    rows.append([len(rows) + 1, sales[-3][0], Decimal("2.20"), "2024-11-01 09:00:00+01"])
    return rows


class Books:
    """The month's books; each argument leaves one rule out."""

    def __init__(self, shops, sales, refunds, rates, bounds, none):
        self.regions = {code: region or none for code, region in shops}
        self.sales, self.refunds, self.rates, self.bounds = sales, refunds, rates, bounds

    def least(self):
        """Return the shop with the smallest turnover."""
        turnover, _ = self._taken()
        return min(turnover, key=lambda shop: (turnover[shop], shop))

    def report(self, **without):
        turnover, left_out = self._taken(**without)
        regions = defaultdict(Decimal)
        for shop, euros in turnover.items():
            regions[self.regions[shop]] += euros
        best = max(turnover, key=lambda shop: (turnover[shop], shop))
        return {"regions": {name: f"{_cents(euros):f}" for name, euros in sorted(regions.items())}, "left_out": left_out, "best_shop": best}

    def _taken(self, *, utc=False, repeats=False, voids=False, late_rounding=False, latest_rate=False, nan_counts_training=False):
        begin, end = self._month(utc)
        taken_off, receipt_of = defaultdict(Decimal), {row[0]: row[1] for row in self.sales}
        for _, sale, amount, void in self.refunds:
            if void is None or voids:
                taken_off[receipt_of[sale]] += amount
        seen, left_out, turnover = set(), 0, defaultdict(Decimal)
        for _, receipt, shop, when, currency, gross, training in self.sales:
            if receipt in seen and not repeats:
                continue
            seen.add(receipt)
            if not begin <= when < end:
                continue
            if training and not (gross.is_nan() and nan_counts_training):
                continue
            if gross.is_nan():
                left_out += 1
                continue
            euros = (gross - taken_off[receipt]) * self._rate(currency, when, latest_rate)
            turnover[shop.strip(" ")] += euros if late_rounding else _cents(euros)
        return turnover, left_out

    def _month(self, utc):
        begin, end = self.bounds
        if not utc:
            return begin, end
        return tuple(datetime(local.year, local.month, 1, tzinfo=timezone.utc) for local in (_berlin(begin), _berlin(end)))

    def _rate(self, currency, when, latest):
        if currency == "EUR":
            return Decimal(1)
        day = "9999" if latest else _berlin(when).strftime("%Y-%m-%d")
        return max((since, euros) for name, since, euros in self.rates if name == currency and since <= day)[1]


def _cents(euros):
    return euros.quantize(CENT, rounding=ROUND_HALF_UP)


def generate(rng, number):
    month_name = pick(rng, list(MONTHS))
    month, first, last = MONTHS[month_name]
    begin, end = _bounds(month, first, last)
    codes = [f"{letter}{whole(rng, 10, 99)}" for letter in "ABCDEFGHIJKL"]
    shops = [[code, None if place % 6 == 5 else REGIONS[place % 4]] for place, code in enumerate(codes)]
    sales = _certain(_sales(rng, shops, begin, end), shops, begin, end)
    refunds, rates = _refunds(rng, sales), _rates(rng, month)
    none = pick(rng, ["elsewhere", "unknown", "none"])
    books = Books(shops, sales, refunds, rates, (begin, end), none)
    _busy(sales, books.least(), begin)
    report = books.report()
    wrong = {rule: books.report(**{rule: True}) for rule in ("utc", "repeats", "voids", "late_rounding", "latest_rate", "nan_counts_training")}
    shown = [[*row[:3], row[3].isoformat(" "), *row[4:]] for row in sales]
    return Recipe(
        database=SCHEMA + SHOPS.inserts(shops) + SALES.inserts(shown) + REFUNDS.inserts(refunds) + RATES.inserts(rates),
        values={"month_name": month_name, "month": month, "none": none},
        hidden={
            "report": report,
            "told": json.dumps(report),
            "regions": json.dumps(report["regions"]),
            "numbers": json.dumps({name: float(text) for name, text in report["regions"].items()}),
            "left_out": report["left_out"],
            "best_shop": report["best_shop"],
            **{rule: json.dumps(found) for rule, found in wrong.items() if found != report},
        },
    )
