"""Access logs of a shop with one intruder and four who look like one."""

import gzip
import io
from datetime import datetime, timedelta, timezone

from rlvr_envs.tasks.making import folder, pick, picks, text, whole
from rlvr_envs.tasks.task import FileSpec, Recipe

END = datetime(2024, 3, 18, 7, 0, tzinfo=timezone.utc)
ZONES = [0, 60, 120, -300, 330]
AGENTS = ["Mozilla/5.0 (X11; Linux x86_64)", "curl/7.88.1", "Mozilla/5.0 (Macintosh)", "okhttp/4.9"]
PATHS = ["/", "/cart", "/item/41", "/item/7?ref=mail", "/search?q=login+401", "/static/app.js", "/help/export/"]
USERS = ["ines", "bo", "marta", "khalid", "yuki", "root", "sven", "olga", "femi", "ana"]
EXPORTS = ["/export/customers.csv", "/export/orders.csv", "/export/cards.csv", "/export/stock.csv"]


def _address(rng):
    return ".".join(str(whole(rng, 11, 240)) for _ in range(4))


def _line(rng, event, proxy):
    when, client, user, request, status, size = event
    zone = timezone(timedelta(minutes=pick(rng, ZONES)))
    stamp = when.astimezone(zone).strftime("%d/%b/%Y:%H:%M:%S %z")
    address, forwarded = (proxy, client) if whole(rng, 0, 2) == 0 else (client, "-")
    return f'{address} - {user} [{stamp}] "{request} HTTP/1.1" {status} {size} "{pick(rng, AGENTS)}" "{forwarded}"'


def _noise(rng, clients):
    when = END - timedelta(seconds=whole(rng, 0, 3 * 86_400))
    status = pick(rng, [200, 200, 200, 304, 404, 500])
    return (when, pick(rng, clients), "-", f"GET {pick(rng, PATHS)}", status, whole(rng, 100, 40_000))


def _logins(rng, client, user, start, failures, entered):
    """Failed log-ins every few seconds, then perhaps a good one; the end time too."""
    events, when = [], start
    for _ in range(failures):
        events.append((when, client, user, "POST /login", 401, 512))
        when += timedelta(seconds=whole(rng, 2, 90))
    if entered:
        events.append((when, client, user, "POST /login", 302, 0))
    return events, when


def _fetches(rng, client, user, start, count, status=200):
    events, when = [], start
    for _ in range(count):
        when += timedelta(seconds=whole(rng, 5, 400))
        path = pick(rng, EXPORTS) + pick(rng, ["", "?page=1", "?page=2&all=1"])
        events.append((when, client, user, f"GET {path}", status, whole(rng, 10_000, 900_000)))
    return events


def _intruder(rng, client, user, threshold):
    start = END - timedelta(seconds=whole(rng, 86_400, 2 * 86_400))
    events, entered = _logins(rng, client, user, start, threshold + whole(rng, 2, 20), True)
    early = _fetches(rng, client, user, start - timedelta(hours=2), 2, status=403)
    stolen = _fetches(rng, client, user, entered, whole(rng, 4, 9))
    refused = _fetches(rng, client, user, entered, 2, status=403)
    after, _ = _logins(rng, client, user, entered + timedelta(hours=3), 3, False)
    report = {
        "client": client,
        "user": user,
        "failed_logins": sum(event[4] == 401 for event in events),
        "entered_at": entered.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "stolen_bytes": sum(event[5] for event in stolen),
        "exports": sorted({event[3].split()[1].split("?")[0] for event in stolen}),
    }
    return [*events, *early, *stolen, *refused, *after], report


def _lookalikes(rng, clients, users, threshold):
    start = END - timedelta(seconds=whole(rng, 86_400, 2 * 86_400))
    never_in, _ = _logins(rng, clients[0], users[0], start, threshold + 30, False)
    no_export, _ = _logins(rng, clients[1], users[1], start, threshold + 4, True)
    few, entered = _logins(rng, clients[2], users[2], start, threshold - 2, True)
    few += _fetches(rng, clients[2], users[2], entered, 3)
    more, _ = _logins(rng, clients[2], users[2], entered + timedelta(hours=4), threshold, False)
    first, entered = _logins(rng, clients[3], users[3], start, 1, True)
    first += _fetches(rng, clients[3], users[3], entered, 5)
    return [*never_in, *no_export, *few, *more, *first]


def _gzip(content):
    """A gzip file whose bytes depend on no library version: stored blocks."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=0, mtime=0) as packed:
        packed.write(content)
    return out.getvalue()


def generate(rng, number):
    threshold = whole(rng, 8, 15)
    proxy = f"10.0.{whole(rng, 0, 9)}.{whole(rng, 2, 250)}"
    clients = list(dict.fromkeys(_address(rng) for _ in range(40)))
    users = picks(rng, USERS, 5)
    events, report = _intruder(rng, clients[0], users[0], threshold)
    events += _lookalikes(rng, clients[1:5], users[1:], threshold)
    events += [_noise(rng, clients) for _ in range(2200)]
    events.sort(key=lambda event: event[0] + timedelta(seconds=whole(rng, -900, 900)))
    lines = [_line(rng, event, proxy) for event in events]
    third = len(lines) // 3
    parts = [lines[:third], lines[third : 2 * third], lines[2 * third :]]
    oldest, middle, newest = ("\n".join(part) + "\n" for part in parts)
    return Recipe(
        files=(
            folder("/app"),
            FileSpec("/var/log/shop/access.log.2.gz", _gzip(oldest.encode())),
            text("/var/log/shop/access.log.1", middle, user=0),
            text("/var/log/shop/access.log", newest, user=0),
        ),
        values={"threshold": threshold, "proxy": proxy},
        hidden={"report": report},
    )
