"""Names of backups around a date, with names that only look like some."""

from datetime import date, datetime, timedelta

from rlvr_envs.tasks.making import folder, pick, text, whole
from rlvr_envs.tasks.task import Recipe

TODAY = date(2024, 2, 29)


def _names(rng, prefix, today, days_back):
    names = set()
    for back in range(-2, days_back):
        if whole(rng, 0, 3) == 0:
            continue
        for _ in range(whole(rng, 1, 2)):
            day = today - timedelta(days=back)
            names.add(f"{prefix}-{day:%Y%m%d}-{whole(rng, 0, 23):02}{whole(rng, 0, 59):02}.tar.gz")
    names |= {
        f"{prefix}-{today.year - 1}0229-1200.tar.gz",
        f"{prefix}-{today.year}0131-2460.tar.gz",
        f"{prefix}-{today.year}13{today.day:02}-1200.tar.gz",
        f"x{prefix}-{today:%Y%m%d}-0001.tar.gz",
        f"{prefix}-{today:%Y%m%d}-0001.tar.gz.part",
        "README",
    }
    return sorted(names)


def _made(name, prefix):
    head, tail = f"{prefix}-", ".tar.gz"
    body = name[len(head) : -len(tail)]
    if not (name.startswith(head) and name.endswith(tail) and len(body) == 13):
        return None
    try:
        return datetime.strptime(body, "%Y%m%d-%H%M")
    except ValueError:
        return None


def _months(day):
    return day.year * 12 + day.month


def _week(day):
    return (day - timedelta(days=day.weekday())).toordinal() // 7


def _deletable(names, prefix, today, rule):
    made = {name: _made(name, prefix) for name in names}
    made = {name: when for name, when in made.items() if when}
    newest_month, newest_week = {}, {}
    for name, when in sorted(made.items(), key=lambda item: item[1]):
        newest_month[_months(when.date())] = name
        newest_week[_week(when.date())] = name
    kept = {name for name, when in made.items() if (today - when.date()).days < rule["days"]}
    kept |= {name for month, name in newest_month.items() if _months(today) - month < rule["months"]}
    kept |= {name for week, name in newest_week.items() if _week(today) - week < rule["weeks"]}
    return sorted(set(made) - kept)


def generate(rng, number):
    rule = {"days": whole(rng, 4, 9), "weeks": whole(rng, 3, 8), "months": whole(rng, 5, 14)}
    prefix = pick(rng, ["shop", "mail", "wiki", "payroll"])
    names = _names(rng, prefix, TODAY, 420)
    files = tuple(text(f"/srv/backups/{name}", "", user=0) for name in names)
    return Recipe(
        files=(folder("/app"), *files),
        values={**rule, "prefix": prefix},
        hidden={"rule": rule, "prefix": prefix, "today": _deletable(names, prefix, TODAY, rule)},
    )


def hidden(rng, recipe):
    rule, prefix = recipe.hidden["rule"], recipe.hidden["prefix"]
    days = [TODAY, date(2021, 1, 3), date(2024, 12, 30), date(2023, 3, 1)]
    days.append(date(2022, 1, 1) + timedelta(days=whole(rng, 0, 700)))
    cases = []
    for day in days:
        names = _names(rng, prefix, day, whole(rng, 100, 500))
        cases.append({"date": str(day), "names": names, "deletable": _deletable(names, prefix, day, rule)})
    cases.append({"date": "2024-05-05", "names": [], "deletable": []})
    return {"cases": cases}
