"""Three configuration files of a gateway that disagree with each other and with their syntax."""

import json

from rlvr_envs.tasks.making import pick, picks, text, whole
from rlvr_envs.tasks.task import Recipe

NAMES = ["auth", "basket", "catalog", "images", "invoices", "ledger", "mail", "quotes", "search", "stock"]

CHECK = '''#!/usr/bin/env python3
"""Reads the configuration as the gateway does; status 1 if it is not usable."""

import configparser
import json
import sys
import tomllib

CONF = "/app/conf"
problems = []
try:
    ini = configparser.ConfigParser()
    ini.read_file(open(f"{CONF}/gateway.ini"))
    ini.getint("listen", "port")
    ini.getboolean("tls", "enabled")
except Exception as error:
    problems.append(f"gateway.ini: {error}")
names = []
try:
    for route in json.load(open(f"{CONF}/routes.json")):
        names.append(route["name"])
        if not isinstance(route["timeout_ms"], int):
            problems.append(f"routes.json: {route['name']}: timeout_ms is no number")
except Exception as error:
    problems.append(f"routes.json: {type(error).__name__}: {error}")
try:
    limits = tomllib.load(open(f"{CONF}/limits.toml", "rb"))
    problems += [f"limits.toml: no limits for {name}" for name in names if name not in limits.get("route", {})]
except Exception as error:
    problems.append(f"limits.toml: {error}")
print("\\n".join(problems) or "the gateway would start")
sys.exit(bool(problems))
'''


def _ini(rng, wanted):
    other = whole(rng, 1000, 9999)
    broken = pick(rng, ["<<<<<<< ours\n", "=======\n", "[listen\n"])
    return (
        f"[listen]\nhost = 127.0.0.1\nport = {other}\n{broken}port = {wanted['port']}\n\n"
        f"[tls]\nenabled = maybe\nmin_version = 1.0\nciphers = {wanted['ciphers'].lower()}\n\n"
        f"[log]\nlevel = {wanted['level']}\nfile = /tmp/access.log\ncolour = yes\n\n[debug]\ndump = yes\n"
    )


def _messy(rng, route, wanted):
    """One way of writing a route that means the same."""
    prefix, upstream, timeout = route["prefix"], route["upstream"], route["timeout_ms"]
    messy = {"name": route["name"]}
    messy["prefix"] = pick(rng, [prefix, prefix + "/", prefix.lstrip("/")]) if prefix != "/" else "/"
    upstream = upstream.removesuffix(f":{wanted['upstream_port']}") if whole(rng, 0, 1) else upstream
    messy["upstream"] = upstream.removeprefix("http://") if whole(rng, 0, 1) else upstream
    if timeout == wanted["timeout_ms"] and whole(rng, 0, 1):
        return messy
    messy["timeout_ms"] = pick(rng, [timeout, f"{timeout}ms", f"{timeout // 1000}s" if timeout % 1000 == 0 else timeout])
    return messy


def _routes(rng, wanted):
    """The routes that are wanted, and the messy ones that are there, doubles included."""
    clean, messy = [], []
    for name in picks(rng, NAMES, 7):
        port = pick(rng, [wanted["upstream_port"], whole(rng, 2000, 2999)])
        timeout = pick(rng, [wanted["timeout_ms"], whole(rng, 1, 9) * 1000, whole(rng, 100, 900)])
        prefix = "/" if name == "search" else f"/{name}/v{whole(rng, 1, 3)}"
        route = {"name": name, "prefix": prefix, "upstream": f"http://{name}.internal:{port}", "timeout_ms": timeout}
        if whole(rng, 0, 1):
            double = {**route, "name": f"{name}-old", "upstream": f"http://old.internal:{port}"}
            messy.insert(whole(rng, 0, len(messy)), _messy(rng, double, wanted))
        clean.append(route)
        messy.append(_messy(rng, route, wanted))
    return clean, messy


def _limits(rng, clean, wanted):
    lines, limits = ["# requests per second\n"], {}
    for route in [*clean, {"name": "forgotten"}, {"name": f"{clean[0]['name']}-old"}]:
        name = route["name"]
        if whole(rng, 0, 3) == 0 and name != "forgotten":
            limits[name] = {"per_second": wanted["per_second"], "burst": wanted["burst"]}
            continue
        rate, burst = whole(rng, 5, 90), whole(rng, 5, 90)
        limits[name] = {"per_second": rate, "burst": max(rate, burst)}
        lines.append(f"[route.{name}]\nper_second = {rate}\nburst = {burst}\n\n")
    lines.insert(1, pick(rng, ["[route.broken\n", "route = [\n", "per_second == 5\n"]))
    return {name: limits[name] for name in (route["name"] for route in clean)}, "".join(lines)


def generate(rng, number):
    wanted = {
        "port": whole(rng, 8000, 8999), "ciphers": pick(rng, ["HIGH:!aNULL", "ECDHE+AESGCM", "HIGH:!MD5"]),
        "level": pick(rng, ["info", "warning", "notice"]), "upstream_port": whole(rng, 3000, 3999), "timeout_ms": whole(rng, 11, 29) * 100,
        "per_second": whole(rng, 10, 40),
    }
    wanted["burst"] = wanted["per_second"] * 2
    clean, messy = _routes(rng, wanted)
    limits, toml = _limits(rng, clean, wanted)
    routes = json.dumps(messy, indent=2)
    place = routes.index("},")
    routes = routes[:place] + pick(rng, ["} ", "},,"]) + routes[place + 2 :]
    return Recipe(
        files=(
            text("/app/conf/gateway.ini", _ini(rng, wanted)),
            text("/app/conf/routes.json", routes + "\n"),
            text("/app/conf/limits.toml", toml),
            text("/app/bin/check", CHECK, mode=0o755),
        ),
        values=wanted,
        hidden={"wanted": wanted, "routes": clean, "limits": limits},
    )
