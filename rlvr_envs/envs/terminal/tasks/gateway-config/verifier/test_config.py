import configparser
import json
import tomllib
from pathlib import Path

HIDDEN = json.loads(Path("/verifier/hidden.json").read_text())
WANTED = HIDDEN["wanted"]


def test_gateway_ini(candidate):
    ini = configparser.ConfigParser(interpolation=None)
    ini.read_string(candidate.read_text("/app/conf/gateway.ini"))

    assert {name: dict(ini[name]) for name in ini.sections()} == {
        "listen": {"host": "0.0.0.0", "port": str(WANTED["port"])},
        "tls": {"enabled": "yes", "min_version": "1.2", "ciphers": WANTED["ciphers"]},
        "log": {"level": WANTED["level"], "file": "/var/log/gateway/access.log"},
    }
    assert not ini.defaults()


def test_routes_json(candidate):
    routes = candidate.read_json("/app/conf/routes.json")

    assert routes == HIDDEN["routes"]
    assert all(type(route["timeout_ms"]) is int for route in routes)


def test_limits_toml(candidate):
    limits = tomllib.loads(candidate.read_text("/app/conf/limits.toml"))

    assert limits == {"route": HIDDEN["limits"]}
    assert all(type(value) is int for table in limits["route"].values() for value in table.values())
