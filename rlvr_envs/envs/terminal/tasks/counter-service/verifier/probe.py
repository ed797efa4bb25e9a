"""Starts the service from the files that were left, and talks to it.

Runs as root in a throwaway copy; what was submitted runs as the agent's user,
without our environment and descriptors.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

HIDDEN = json.load(open("/verifier/hidden.json"))
NONCE = os.environ.pop("RLVR_NONCE")
VERDICT = os.dup(3)
os.set_inheritable(VERDICT, False)
os.close(3)
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/agent", "LANG": "C.UTF-8"}
ROWS = []


class Client:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", HIDDEN["port"]), timeout=15)
        self.file = self.socket.makefile("rb")

    def ask(self, line):
        self.socket.sendall(line.encode() + b"\n")
        return self.file.readline(200).decode().rstrip("\n")

    def close(self):
        self.file.close()
        self.socket.close()


def run(name, timeout_s=30):
    try:
        done = subprocess.run(
            [f"/app/counter/{name}"], cwd="/", env=ENV, user=1000, group=1000, extra_groups=[],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout_s,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return "it did not return in time"
    except OSError as error:
        return f"it cannot be run: {error.strerror}"
    return "" if done.returncode == 0 else f"it ended with status {done.returncode}"


def theirs():
    """Process ids of everything that runs as the agent's user."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid == 1000:
                found.append(int(name))
        except OSError:
            continue
    return found


def kill_all():
    deadline = time.monotonic() + 15
    while theirs() and time.monotonic() < deadline:
        for pid in theirs():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
        time.sleep(0.02)


def hit(name, times, problems):
    try:
        client = Client()
        for _ in range(times):
            if not client.ask(f"INCR {name}").isdigit():
                problems.append(name)
        client.close()
    except OSError as error:
        problems.append(str(error))


def check_start():
    problem = run("start")
    assert not problem, f"start: {problem}"


def check_seed():
    client = Client()
    for name, value in HIDDEN["seed"].items():
        assert client.ask(f"GET {name}") == str(value), f"{name} is not what the seed says"
    assert client.ask("TOTAL") == str(sum(HIDDEN["seed"].values())), "TOTAL is not the sum"
    assert client.ask(f"GET {HIDDEN['fresh'][0]}") == "0", "an unknown counter is not 0"
    client.close()


def check_bad_requests():
    client = Client()
    for line in HIDDEN["bad"]:
        assert client.ask(line) == "ERR", f"{line!r} was not answered by ERR"
    assert client.ask("TOTAL") == str(sum(HIDDEN["seed"].values())), "a bad request changed a counter"
    client.close()


def check_many_clients():
    silent = [Client() for _ in range(14)]
    problems = []
    names = [HIDDEN["fresh"][0]] * 3 + HIDDEN["fresh"][1:3]
    threads = [threading.Thread(target=hit, args=(name, HIDDEN["hits"], problems)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(45)
    assert not problems and not any(thread.is_alive() for thread in threads), f"clients failed: {problems[:2]}"
    client = Client()
    assert client.ask(f"GET {HIDDEN['fresh'][0]}") == str(3 * HIDDEN["hits"]), "increments were lost"
    for each in [client, *silent]:
        each.close()


def check_second_start():
    before = set(theirs())
    problem = run("start")
    assert not problem, f"second start: {problem}"
    client = Client()
    assert client.ask(f"INCR {HIDDEN['fresh'][3]}") == "1"
    client.close()
    assert before & set(theirs()), "the second start replaced the service"


def check_power_cut():
    client = Client()
    values = {name: client.ask(f"GET {name}") for name in [*HIDDEN["fresh"], *HIDDEN["seed"]]}
    total = client.ask("TOTAL")
    kill_all()
    client.close()
    problem = run("start")
    assert not problem, f"start after SIGKILL: {problem}"
    client = Client()
    for name, value in values.items():
        assert client.ask(f"GET {name}") == value, f"{name} was lost or counted twice"
    assert client.ask("TOTAL") == total
    client.close()


def refused():
    try:
        Client().close()
    except OSError:
        return True
    return False


def check_stop():
    problem = run("stop")
    assert not problem, f"stop: {problem}"
    deadline = time.monotonic() + 15
    while not refused() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert refused(), "it still answers after stop"
    problem = run("stop")
    assert not problem, f"stop without a service: {problem}"


CHECKS = [check_start, check_seed, check_bad_requests, check_many_clients, check_second_start, check_power_cut, check_stop]
for check in CHECKS:
    try:
        check()
        ROWS.append({"name": check.__name__.removeprefix("check_"), "passed": True, "reason": ""})
    except (AssertionError, OSError, UnicodeDecodeError) as error:
        ROWS.append({"name": check.__name__.removeprefix("check_"), "passed": False, "reason": str(error)[:300]})
        if check is check_start:
            break
kill_all()
os.write(VERDICT, json.dumps({"nonce": NONCE, "checks": ROWS}).encode())
sys.exit(0)
