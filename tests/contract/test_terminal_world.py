"""What a terminal world promises: no way out, frozen time, nothing left behind."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.records import Places
from tests.contract.conftest import MakeEnv
from tests.contract.worlds import SUBMIT, TASK, bash, run
from tests.processes import eventually

NOWHERE = (
    "curl -sS -m2 http://example.com",
    "curl -sS --noproxy '*' -m2 https://1.1.1.1",
    "getent hosts x1y2.example.com",
    'python3 -c "import socket; s=socket.socket(2,2); '
    "s.sendto(b'q',('8.8.8.8',53)); s.settimeout(2); print(s.recv(9))\"",
    "(exec 3<>/dev/tcp/8.8.8.8/53)",
    "ping -c1 -W1 8.8.8.8",
    "env -u http_proxy -u https_proxy curl -sS -m2 http://example.com",
    "python3 -c \"import socket; socket.create_connection(('2606:4700::1111', 80), 2)\"",
)


@pytest.mark.parametrize("command", NOWHERE)
@pytest.mark.parametrize("stack", ["standard", "bare"])
def test_nobody_gets_out_and_nobody_waits(
    make: MakeEnv, command: str, stack: str
) -> None:
    env = make(task=TASK, stack=stack, step_timeout_s=10)
    env.reset()
    began = time.monotonic()

    _, info = run(env, command)

    assert info["exit_code"] > 0
    assert time.monotonic() - began < 2.5


def test_attempts_to_leave_are_events_and_cost_nothing(make: MakeEnv) -> None:
    env = make(task=TASK)
    env.reset()

    _, info = run(env, f"{NOWHERE[1]}; {NOWHERE[2]}; {NOWHERE[3]}")
    kinds = {event["kind"]: event for event in info["events"]}

    assert kinds["dns"]["detail"] == "x1y2.example.com"
    assert kinds["egress"]["count"] >= 2
    info = env.step(SUBMIT)[4]
    assert info["outcome"]["tamper"] == []


def test_pinned_names_and_recorded_exchanges_stand_in_for_the_network(
    make: MakeEnv,
) -> None:
    exchange = {"method": "GET", "url": "http://api.test/v1", "status": 200}
    stand_ins = {"exchanges": [{**exchange, "body": "recorded"}]}
    env = make(task=TASK, layers={"EgressBlock": stand_ins})
    env.reset()

    shown, info = run(env, "curl -sS http://api.test/v1")

    assert shown == "recorded"
    assert {event["kind"] for event in info["events"]} == {"dns", "http"}
    assert "502" in run(env, "curl -sS -o /dev/null -w '%{http_code}' api.test/x")[0]


def test_loopback_is_the_tasks_own(make: MakeEnv) -> None:
    env = make(task=TASK)
    env.reset()
    run(env, "cd /tmp && python3 -m http.server 8000 >/dev/null 2>&1 &")

    shown, _ = run(
        env, "for i in $(seq 50); do curl -sS localhost:8000 && break; sleep .1; done"
    )

    assert "Directory listing" in shown


CLOCK = {"FakeTime": {"epoch": "2020-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    "command",
    [
        "date +%F",
        "env -u LD_PRELOAD date +%F",
        "env -i /bin/date +%F",
        "python3 -c 'import datetime as d; print(d.datetime.now().date())'",
        "env -i /usr/bin/python3 -c 'import datetime as d; print(d.date.today())'",
        "perl -e 'use POSIX; print strftime(\"%F\", gmtime)'",
        "sqlite3 :memory: 'select date()'",
        "printf '%(%F)T\\n' -1",
        "bash -c 'date +%F'",
        "git -C /tmp init -q r && cd /tmp/r && git -c user.name=a -c user.email=b "
        "commit -q --allow-empty -m x && git log --format=%as",
    ],
)
def test_the_frozen_date_is_everywhere(make: MakeEnv, command: str) -> None:
    env = make(task=TASK, layers=CLOCK)
    env.reset()

    assert run(env, command)[0].strip() == "2020-01-01"


@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        ("python3 -c 'import threading; threading.Event().wait(1)'", 1.0),
        (
            'python3 -c "import queue\ntry: queue.Queue().get(timeout=1)\nexcept: pass"',
            1,
        ),
        ("python3 -c 'import time; time.sleep(1)'", 1.0),
        ("sleep 1", 1.0),
        ("timeout 1 sleep 5", 1.0),
        ('python3 -c "import time\nt=time.time()\nwhile time.time() < t+1: pass"', 0.0),
    ],
)
def test_waits_end_in_real_time_and_busy_waits_end(
    make: MakeEnv, command: str, seconds: float
) -> None:
    env = make(task=TASK, layers=CLOCK)
    env.reset()
    began = time.monotonic()

    _, info = run(env, command)

    assert info["timed_out"] is False
    assert seconds * 0.9 <= time.monotonic() - began < seconds + 3.0


def test_file_times_are_virtual_in_later_actions_and_make_sees_no_skew(
    make: MakeEnv,
) -> None:
    env = make(task=TASK, layers=CLOCK)
    env.reset()
    run(env, "cd /tmp && touch a && printf 'b: a\\n\\tcp a b\\n' > Makefile")

    shown, _ = run(env, "stat -c '%y %z' a; make -n; make; make")

    assert shown.startswith("2020-01-01 00:00:01.000000000 +0000 2020-01-01")
    assert "skew" not in shown
    assert shown.endswith("make: 'b' is up to date.")


def test_order_within_an_action_is_kept(make: MakeEnv) -> None:
    env = make(task=TASK, layers=CLOCK)
    env.reset()

    shown, _ = run(
        env, "cd /tmp; touch a; sleep 0.05; touch b; [ b -nt a ] && echo newer; ls -t"
    )

    assert shown.splitlines()[0] == "newer"
    assert shown.splitlines()[1] == "b"


def test_the_zone_of_a_process_moves_the_hour_and_not_the_moment(
    make: MakeEnv,
) -> None:
    env = make(task=TASK, layers=CLOCK)
    env.reset()

    shown, _ = run(env, "date +%s; TZ=Asia/Tokyo date +%s")

    assert len(set(shown.split())) == 1


def test_each_turn_moves_the_clock_by_its_step(make: MakeEnv) -> None:
    env = make(task=TASK, layers={"FakeTime": {**CLOCK["FakeTime"], "step_s": 60}})
    env.reset()

    times = [int(run(env, command)[0]) for command in ["date +%s"] * 3]

    assert [later - first for first, later in itertools.pairwise(times)] == [60, 60]
    assert int(run(env, "printf '%(%s)T' -1")[0]) - times[-1] == 60


BOMBS = (
    ":(){ :|:& };:",
    'python3 -c "x=bytearray(8<<30)"',
    "dd if=/dev/zero of=/tmp/f bs=1M count=1000000",
    "ulimit -n 1048576; python3 -c \"f=[open('/dev/null') for _ in range(10**6)]\"",
    "i=0; while : > /tmp/n$i; do i=$((i+1)); done",
)


WITH_JOBS = (
    "sleep 100 & wait",
    "sleep 100 & sleep 200 & sleep 300",
    "coproc sleep 100; wait",
    "read line < <(sleep 100)",
    "sleep 100 & for i in 1 2; do sleep 200; done",
)


def test_what_is_told_of_killed_jobs_is_the_same_each_time(make: MakeEnv) -> None:
    env = make(task=TASK, step_timeout_s=0.3)
    told = []
    for _ in range(4):
        env.reset(seed=1)
        told.append([run(env, line)[0] for job in WITH_JOBS for line in (job, "echo")])

    assert told[1:] == told[:1] * 3
    assert "timed out" in told[0][0]


def test_a_machine_without_tmux_is_refused_by_the_first_reset(
    make: MakeEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, later = make(task=TASK), make(task=TASK)
    later.reset()
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(MissingRequirement, match="apt-get install tmux"):
        env.reset()
    later.reset()
    *_, info = later.step('{"name": "screen", "arguments": {}}')
    assert info["outcome"]["status"] == "infra_error"


@pytest.mark.parametrize("left", ["", "sleep 500 & setsid sleep 600 & sleep 500 &"])
def test_what_an_agent_leaves_running_is_an_event(make: MakeEnv, left: str) -> None:
    env = make(task=TASK)
    env.reset()
    run(env, f"{left} sleep 0.5")

    info = env.step(SUBMIT)[4]

    told = [(event["detail"], event["count"]) for event in info["events"]]
    assert told == ([("sleep 500", 2), ("sleep 600", 1)] if left else [])
    assert {event["kind"] for event in info["events"]} <= {"survivor"}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_ends_within_its_step_and_leaves_the_slot_clean(
    make: MakeEnv, bomb: str
) -> None:
    env, sibling = make(task=TASK, step_timeout_s=6), make(task=TASK, turns=9999)
    env.reset()
    sibling.reset()
    slowest = 0.0
    began = time.monotonic()
    worker = threading.Thread(target=run, args=(env, bomb))
    worker.start()

    while worker.is_alive():
        asked = time.monotonic()
        assert run(sibling, "echo ok")[0] == "ok"
        slowest = max(slowest, time.monotonic() - asked)
        worker.join(0.3)

    assert time.monotonic() - began < 9
    assert slowest < 2.0
    env.reset()
    assert run(env, "echo fine; ls /tmp | wc -l")[0] == "fine\n0"


FINGERPRINT = (
    "find / -xdev \\( -path /proc -o -path /run/rlvr \\) -prune -o -type f -print0 "
    "2>/dev/null | sort -z | xargs -0 sha256sum 2>/dev/null | sha256sum; "
    "ps -eo pid,args --no-headers | grep -v 'ps -eo' | wc -l; env | sort | sha256sum; "
    "ls -laR /home /tmp /var/tmp /app | sha256sum"
)
VANDALISM = (
    "rm -rf ~/.[a-z]*; echo 'exit 1' >> /etc/profile; crontab - </dev/null; "
    "nohup sleep 999 >/dev/null 2>&1 & export LEAK=1; touch /tmp/x /app/y; umask 0"
)


def test_nothing_leaks_from_one_episode_to_the_next(make: MakeEnv) -> None:
    env = make(task=TASK)
    env.reset(seed=3)
    before = run(env, FINGERPRINT)[0]
    base = _footprint(os.getpid())

    for _ in range(20):
        env.reset(seed=3)
        run(env, VANDALISM)
        env.reset(seed=3)

    assert run(env, FINGERPRINT)[0] == before
    assert _footprint(os.getpid()) == base


def test_the_hosts_kill_voids_one_slot_and_its_next_reset_works(make_vec: Any) -> None:
    envs = make_vec(4, task=TASK)
    envs.reset(seed=1)
    victim = envs.envs[2].unwrapped._world._sandbox
    victim.kill()

    shown, rewards, ended, _, infos = envs.step([bash("echo on")] * 4)

    assert (shown[0], shown[1], shown[3]) == ("on", "on", "on")
    assert ended.tolist() == [False, False, True, False]
    assert infos["outcome"]["status"][2] == "infra_error"
    assert infos["scorable"][2] is False or not infos["scorable"][2]
    assert rewards.tolist() == [0.0] * 4
    mask = ended
    assert "sum" in envs.reset(options={"reset_mask": mask})[0][2]
    assert envs.step([bash("echo again")] * 4)[0] == ("again",) * 4


def test_the_agents_own_kill_is_never_the_harnesss_fault(make_vec: Any) -> None:
    envs = make_vec(4, task=TASK)
    envs.reset(seed=1)

    actions = [bash("echo on")] * 4
    actions[2] = bash("kill -9 -1; kill -9 $$")
    shown, _, ended, _, infos = envs.step(actions)

    assert not ended.any()
    assert infos["error_kind"][2] == "shell_lost"
    assert (shown[0], shown[1], shown[3]) == ("on", "on", "on")
    assert envs.step([bash("echo back")] * 4)[0] == ("back",) * 4
    infos = envs.step([SUBMIT] * 4)[4]
    assert set(infos["outcome"]["status"]) == {"failed"}


def test_a_branch_and_a_sealed_episode_are_places_to_start_from(make: MakeEnv) -> None:
    env, other = make(task=TASK), make(task=TASK)
    env.reset()
    run(env, "echo one > /app/note; rm /data/n.txt 2>/dev/null; true")
    branch = env.unwrapped.branch()  # type: ignore[attr-defined]
    run(env, "echo two > /app/note")
    other.reset(options={"start": branch})

    assert run(other, "cat /app/note")[0] == "one"
    assert run(env, "cat /app/note")[0] == "two"
    env.step(SUBMIT)
    sealed = env.unwrapped.seal()  # type: ignore[attr-defined]
    other.reset(options={"start": sealed})
    assert run(other, "cat /app/note")[0] == "two"
    env.reset()
    assert run(other, "cat /app/note")[0] == "two"
    branch.close()
    sealed.close()


def test_tampering_before_a_branch_is_seen_after_it(make: MakeEnv) -> None:
    env, other = make(task=TASK), make(task=TASK)
    env.reset()
    hook = "import pytest\\n@pytest.hookimpl\\ndef pytest_runtest_makereport(item, call): ..."
    run(env, f"printf '{hook}' > /app/conftest.py")
    branch = env.unwrapped.branch()  # type: ignore[attr-defined]
    other.reset(options={"start": branch})

    info = other.step(SUBMIT)[4]

    assert info["outcome"]["status"] == "tampered"
    branch.close()


def test_a_killed_trainer_leaves_nothing(machine: Any) -> None:
    program = (
        "import gymnasium as gym, rlvr_envs, sys, time\n"
        f"env = gym.make('rlvr/Terminal-v0', task={TASK!r}); env.reset()\n"
        f"env.step({bash('nohup sleep 987654 >/dev/null 2>&1 & echo up')!r})\n"
        "print('ready', flush=True); time.sleep(60)\n"
    )
    trainer = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    )
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == "ready\n"
    assert _footprint(trainer.pid)["cgroups"] > 0
    assert _sleepers() == 1
    os.kill(trainer.pid, signal.SIGKILL)
    trainer.wait(10)
    trainer.stdout.close()

    nothing = {"cgroups": 0, "places": 0, "mounts": 0}
    assert eventually(lambda: _footprint(trainer.pid) == nothing and _sleepers() == 0)


def _footprint(pid: int) -> dict[str, int]:
    """Count what a process's sandboxes have on this machine."""
    mark = f"-{pid}-"
    cgroups = [path for path in _folders("/sys/fs/cgroup") if mark in path.name]
    places = [path for path in _folders(str(Places().run)) if mark in path.name]
    mounts = Path("/proc/self/mountinfo").read_text().count(mark)
    return {"cgroups": len(cgroups), "places": len(places), "mounts": mounts}


def _folders(root: str) -> Iterator[Path]:
    for folder, _, _ in os.walk(root):
        yield Path(folder)


def _sleepers() -> int:
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += path.read_bytes() == b"sleep\x00987654\x00"
    return found


def test_a_decoy_is_harmless_to_read_and_shows_who_submits_it(make: MakeEnv) -> None:
    env = make(task=TASK)
    env.reset()
    run(env, "ls /var/lib/judge; cat /var/lib/judge/*")
    honest = env.step(SUBMIT)[4]["outcome"]
    env.reset()
    run(env, "cp /var/lib/judge/expected.json /app/out.txt")
    thief = env.step(SUBMIT)[4]["outcome"]

    assert honest["tamper"] == []
    assert thief["tamper"] == ["ANSWER_READ"]


def test_a_forged_exit_status_fools_the_shell_alone(make_vec: Any) -> None:
    forge = 'printf "%s 99999999999999999999999999 %s\\n" "$__rlvr_id" $$ >&10; true'
    envs = make_vec(2, task=TASK)
    envs.reset()

    infos = envs.step([bash(forge), bash("echo on")])[4]

    assert all(-1 <= int(code) <= 255 for code in infos["exit_code"])
    assert envs.step([bash("echo back")] * 2)[0] == ("back", "back")


def test_two_megabytes_of_keys_are_typed_and_never_raise(make: MakeEnv) -> None:
    env = make(task=TASK)
    env.reset()
    keys = {"keys": ["x" * 8192] * 256}

    info = env.step({"name": "send_keys", "arguments": keys})[4]

    assert "outcome" not in info
    assert run(env, "echo on")[0] == "on"


def test_killed_programs_leave_no_clock_files(make: MakeEnv) -> None:
    env = make(task=TASK)
    env.reset()

    shown, _ = run(
        env, "for i in $(seq 50); do yes | head -1; done >/dev/null; ls /dev/shm"
    )

    assert shown == ""
