"""Parcels of several carriers, some of them late."""

from datetime import datetime, timedelta, timezone

from rlvr_envs.tasks.making import pick, whole
from rlvr_envs.tasks.tables import Table
from rlvr_envs.tasks.task import Recipe

SCHEMA = """CREATE TABLE parcels (
  id int PRIMARY KEY,
  carrier text NOT NULL,
  status text NOT NULL CHECK (status IN ('moving', 'delivered', 'cancelled', 'lost')),
  promised timestamptz,
  delivered timestamptz
);
"""
PARCELS = Table("public.parcels", ("id", "carrier", "status", "promised", "delivered"))
NOW = datetime(2024, 11, 4, 6, 0, tzinfo=timezone.utc)
CARRIERS = ["Blitz", "Nordpost", "Kurier 7", "Aquila"]
ZONES = [0, 60, 120, -300, 330]


def _when(rng, moment):
    return moment.astimezone(timezone(timedelta(minutes=pick(rng, ZONES)))).isoformat(" ")


def _parcel(rng, number, carriers):
    promised = NOW + timedelta(minutes=whole(rng, -9000, 4000))
    status = pick(rng, ["moving", "delivered", "delivered", "delivered", "cancelled", "lost"])
    # Minutes, not days: who drops the offset gets the order of two moments wrong.
    delivered = promised + timedelta(minutes=whole(rng, -400, 200)) if status != "moving" and whole(rng, 0, 5) else None
    if status == "delivered" and delivered is None:
        delivered = promised
    unknown = whole(rng, 0, 14) == 0
    name = pick(rng, carriers)
    shown = pick(rng, [name, name, name.upper(), f"{name} ", f" {name.lower()}", f"{name}s", f"{name[:2]} {name[2:]}"])
    return number, shown, status, None if unknown else promised, delivered


def _is_late(parcel, carrier, *, strict=True):
    _, name, status, promised, delivered = parcel
    same = name.strip(" ").lower() == carrier.lower() if strict else name == carrier
    if not same or status in ("cancelled", "lost") or promised is None:
        return False
    return promised < (delivered or NOW)


def generate(rng, number):
    carrier = pick(rng, CARRIERS)
    carriers = [carrier, carrier, *CARRIERS]
    parcels = [_parcel(rng, index, carriers) for index in range(1, 901)]
    # One of each kind that is easily taken for another, whatever chance brings.
    parcels += [
        (901, f"{carrier} ", "moving", NOW - timedelta(hours=1), None),
        (902, carrier, "lost", NOW - timedelta(hours=1), None),
        (903, carrier, "delivered", NOW + timedelta(days=1), NOW + timedelta(days=1, minutes=1)),
        (904, carrier, "moving", NOW + timedelta(minutes=30), None),  # late by now, and not yet then
    ]
    rows = [
        [index, name, status, promised and _when(rng, promised), delivered and _when(rng, delivered)]
        for index, name, status, promised, delivered in parcels
    ]
    late = sum(_is_late(parcel, carrier) for parcel in parcels)
    exact = sum(_is_late(parcel, carrier, strict=False) for parcel in parcels)
    return Recipe(
        database=SCHEMA + PARCELS.inserts(rows),
        values={"carrier": carrier, "moment": NOW.strftime("%Y-%m-%d %H:%M UTC")},
        hidden={"late": late, "exact": exact},
    )
