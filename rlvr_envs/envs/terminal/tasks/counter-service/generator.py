"""A faulty counter service, its port and the counters that it begins with."""

from rlvr_envs.tasks.making import picks, text, whole
from rlvr_envs.tasks.task import Recipe

NAMES = ["visits", "sign-ups", "orders", "refunds", "mails", "errors-4xx", "errors-5xx", "jobs", "retries"]

SERVER = '''"""Counts things over TCP."""

import socket

COUNTERS = {{}}


def load():
    for line in open("seed.txt"):
        name, value = line.split()
        COUNTERS[name] = value


def answer(line):
    command, name = line.split(" ")
    if command == "INCR":
        COUNTERS[name] = COUNTERS[name] + 1
        return COUNTERS[name]
    if command == "GET":
        return COUNTERS[name]
    if command == "TOTAL":
        return sum(COUNTERS.values())
    return "ERR"


def main():
    load()
    server = socket.create_server(("127.0.0.1", {port}))
    while True:
        client, _ = server.accept()
        for line in client.makefile():
            client.sendall(f"{{answer(line)}}\\n".encode())


main()
'''


def generate(rng, number):
    port = whole(rng, 20_000, 29_999)
    seed = {name: whole(rng, 1, 5_000) for name in picks(rng, NAMES, 5)}
    rows = "".join(f"{name} {value}\n" for name, value in seed.items())
    return Recipe(
        files=(
            text("/app/counter/server.py", SERVER.format(port=port)),
            text("/app/counter/seed.txt", rows),
        ),
        values={"port": port, "start_s": 10, "clients": 20},
        hidden={"port": port, "seed": seed},
    )


def hidden(rng, recipe):
    fresh = [f"c-{whole(rng, 0, 10**9)}" for _ in range(4)]
    bad = ["", "INCR", "INCR  two", "GET UPPER", "incr visits", "INCR " + "a" * 33, "TOTAL now", "GET ../seed.txt", "INCR a b", "\u0001"]
    return {"fresh": fresh, "bad": bad, "hits": whole(rng, 30, 60)}
