"""What only the namespaces backend promises, and how it bears use and abuse."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from rlvr_envs.confinement import ClockRule, Confinement
from rlvr_envs.errors import MissingRequirement, SandboxError
from rlvr_envs.records import Layer, Places, Snapshot
from rlvr_envs.sandbox.base import AGENT_IDS, VERIFIER_IDS, Bind, SandboxSpec
from rlvr_envs.sandbox.cgroups import Hierarchies
from rlvr_envs.sandbox.conformance_kit import Bench, run
from rlvr_envs.sandbox.hulls import SPARE_S
from rlvr_envs.sandbox.idmaps import IdMaps
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from rlvr_envs.sandbox.owners import owner_name, stat_fields
from rlvr_envs.sandbox.reaper import sweep
from rlvr_envs.sandbox.runtime import close_runtimes, runtime
from rlvr_envs.sandbox.wire import Packet

TRAINER = """
import sys
from pathlib import Path
from rlvr_envs.records import Layer, Places, Snapshot
from rlvr_envs.sandbox.base import SandboxSpec
from rlvr_envs.sandbox.conformance_kit import run
from rlvr_envs.sandbox.hulls import SPARE_S
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from rlvr_envs.sandbox.owners import owner_name, stat_fields
layer = Layer("sha256:base", Path(sys.argv[1]))
boxes = []
for _ in range(2):
    box = NamespaceSandbox(SandboxSpec(Snapshot((layer,))), Places(run=Path(sys.argv[2])))
    box.start()
    run(box, "setsid sleep 4444 &")
    boxes.append(box)
sealed = boxes[0].branch()
print(owner_name(), *(box._hull.init_pid for box in boxes), flush=True)
sys.stdin.read()
"""


def until(condition: Callable[[], object], *, within_s: float = 15.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def groups_of(owner: str) -> list[Path]:
    return [
        path for root in Hierarchies.here().roots() for path in root.glob(owner + "-*")
    ]


def children() -> set[str]:
    tasks = Path("/proc/self/task").iterdir()
    return {pid for task in tasks for pid in (task / "children").read_text().split()}


def trainer(bench: Bench) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            TRAINER,
            bench.snapshot.layers[0].path,
            bench.places.run,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_trainer_leaves_nothing(bench: Bench) -> None:
    with trainer(bench) as process:
        assert process.stdout is not None
        owner, *inits = process.stdout.readline().split()
        assert len(groups_of(owner)) >= 2
        assert all(Path(f"/proc/{pid}").exists() for pid in inits)

        process.send_signal(signal.SIGKILL)
        process.wait()

        until(lambda: not groups_of(owner))
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inits))
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(bench.places.run) not in mounts


def test_a_trainer_that_just_ends_leaves_nothing(bench: Bench) -> None:
    with trainer(bench) as process:
        assert process.stdout is not None
        owner, *inits = process.stdout.readline().split()

        process.communicate("")

        assert process.returncode == 0
        until(lambda: not groups_of(owner))
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inits))


def test_what_a_killed_supervisor_left_is_swept(bench: Bench) -> None:
    with trainer(bench) as process:
        assert process.stdout is not None
        owner, *inits = process.stdout.readline().split()
        process.send_signal(signal.SIGSTOP)
        supervisors = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        for pid in supervisors.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        process.send_signal(signal.SIGKILL)
        process.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inits))
    (bench.places.run / f"{owner}-left").mkdir()
    (bench.places.run / f"{owner}-left/file").write_text("x")

    swept = sweep(bench.places)

    assert not groups_of(owner)
    assert {path.name for path in bench.places.run.glob("*-left")} == set()
    assert f"{owner}-left" in swept.entries
    assert not [name for name in swept.kept if name.startswith(owner)]


def test_a_sweep_spares_the_living(bench: Bench) -> None:
    mine = bench.places.run / f"{owner_name()}-mine"
    mine.mkdir(exist_ok=True)
    with bench.sandbox() as sandbox:
        sweep(bench.places)

        assert run(sandbox, "echo fine").text == "fine\n"
        assert mine.is_dir()


def test_sixteen_threads_start_and_end_at_once(bench: Bench) -> None:
    def episode(number: int) -> str:
        with bench.sandbox() as sandbox:
            text = run(sandbox, f"echo {number}").text
            sandbox.kill()
            return text

    with ThreadPoolExecutor(16) as pool:
        texts = list(pool.map(episode, range(32)))

    assert texts == [f"{number}\n" for number in range(32)]


def test_the_end_of_the_thread_that_started_it_is_no_end(bench: Bench) -> None:
    sandbox = bench.backend(bench.spec(), bench.places)
    thread = threading.Thread(target=sandbox.start)
    thread.start()
    thread.join()

    try:
        assert run(sandbox, "echo fine").text == "fine\n"
    finally:
        sandbox.destroy()


def worker(bench: Bench, answer: Connection) -> None:
    with bench.sandbox() as sandbox:
        answer.send((run(sandbox, "echo fine").text, owner_name()))
    close_runtimes()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_workers_of_every_kind_have_their_own(bench: Bench, method: str) -> None:
    context = multiprocessing.get_context(method)
    with bench.sandbox() as ours:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=worker, args=(bench, sender))  # type: ignore[attr-defined]  # of each context
        process.start()

        assert receiver.poll(60)
        text, owner = receiver.recv()
        process.join(30)

        assert text == "fine\n"
        assert process.exitcode == 0
        assert not groups_of(owner)
        assert run(ours, "echo ours").text == "ours\n"
        receiver.close()
        sender.close()


def hold(ready: Connection) -> None:
    ready.send("up")
    ready.recv()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_that_lives_on_stops_nothing(bench: Bench) -> None:
    context = multiprocessing.get_context("fork")
    with bench.sandbox() as sandbox:
        near, far = context.Pipe()
        process = context.Process(target=hold, args=(far,))
        process.start()
        assert near.recv() == "up"

        assert run(sandbox, "exit 5").status == 5
        began = time.monotonic()
        sandbox.destroy()

        assert time.monotonic() - began < 5
        near.send("end")
        process.join(20)
        near.close()
        far.close()


def test_many_are_alive_at_once(bench: Bench) -> None:
    count = 60
    sandboxes = [bench.backend(bench.spec(), bench.places) for _ in range(count)]
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda sandbox: sandbox.start(), sandboxes))
            texts = list(
                pool.map(lambda sandbox: run(sandbox, "echo $$").text, sandboxes)
            )
    finally:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda sandbox: sandbox.destroy(), sandboxes))

    assert texts == ["2\n"] * count


def test_a_supervisor_that_was_killed_is_the_worlds_fault(bench: Bench) -> None:
    sandbox = bench.backend(bench.spec(), bench.places)
    sandbox.start()
    assert isinstance(sandbox, NamespaceSandbox)
    group = sandbox._hull.group
    os.kill(sandbox._hull.supervisor.pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{sandbox._hull.init_pid}").exists())

    with pytest.raises(SandboxError):
        run(sandbox, "sleep 5")
    sandbox.destroy()

    assert not any(folder.exists() for folder in group.folders)


def test_a_spare_that_was_killed_is_replaced(bench: Bench) -> None:
    with bench.sandbox():
        before = children()
    with bench.sandbox() as sandbox:
        spares = children() - before - {str(sandbox._hull.supervisor.pid)}  # type: ignore[attr-defined]  # of this backend
        for pid in spares:
            os.kill(int(pid), signal.SIGKILL)
        until(lambda: all(stat_fields(int(pid))[0] == b"Z" for pid in spares))

        with bench.sandbox() as another:
            assert run(another, "echo fine").text == "fine\n"


def test_a_folder_that_is_not_there_names_the_step(bench: Bench) -> None:
    layer = Layer("sha256:none", Path("/nonexistent/layer"))
    with bench.sandbox():
        pass
    before = len(children())

    with (
        pytest.raises(SandboxError, match="opening a folder of the host: No such file"),
        bench.sandbox(SandboxSpec(Snapshot((layer,)))),
    ):
        pass

    assert len(children()) == before


def test_mount_targets_are_absolute_and_plain(bench: Bench, tmp_path: Path) -> None:
    for target in ("relative", "/", "/a/../../b", ""):
        spec = bench.spec(binds=(Bind(tmp_path, target),))
        with pytest.raises(ValueError, match="absolute"), bench.sandbox(spec):
            pass


def test_a_target_behind_a_link_of_the_image_is_refused(
    bench: Bench, tmp_path: Path
) -> None:
    spec = bench.spec(binds=(Bind(tmp_path, "/bin/shown"),))

    with pytest.raises(SandboxError, match="link or a file"), bench.sandbox(spec):
        pass


def test_a_single_file_can_be_bound(bench: Bench, tmp_path: Path) -> None:
    source = tmp_path / "issue"
    source.write_text("mine\n")
    spec = bench.spec(binds=(Bind(source, "/etc/issue"),))

    with bench.sandbox(spec) as sandbox:
        ran = run(sandbox, "cat /etc/issue; echo x > /etc/issue", user=0)
        sandbox.kill()
        image = bench.snapshot.layers[0].path / "etc/issue"

        assert ran.text.startswith("mine\n")
        assert ran.status != 0
        assert (sandbox.view() / "etc/issue").read_bytes() == image.read_bytes()


def test_what_is_made_for_a_sandbox_carries_its_own_time(bench: Bench) -> None:
    clock = ClockRule(epoch_s=1_000_000_000)
    spec = bench.spec(confinement=Confinement(clock=clock), targets=("/verifier",))

    with bench.sandbox(spec) as sandbox:
        sandbox.put("note", b"x")
        paths = "/dev /dev/null /run/rlvr /run/rlvr/note /verifier"
        ran = run(sandbox, f"stat -c %Y {paths}; grep btime /proc/stat")

    assert ran.text.split() == ["1000000000"] * 5 + ["btime", "999996400"]


def test_the_mount_point_keeps_what_the_image_says_of_its_parents(bench: Bench) -> None:
    layer = bench.snapshot.layers[0].path
    with bench.sandbox() as sandbox:
        shown = run(sandbox, "stat -c '%a %Y' / /run /sys").text.split("\n")[:3]

    stats = [(layer / name).stat() for name in ("", "run", "sys")]
    assert shown == [f"{s.st_mode & 0o7777:o} {int(s.st_mtime)}" for s in stats]


def lower_layers(bench: Bench, *extra: Path) -> str:
    """Return the layers below the writable one, as a sandbox's mount table has them."""
    layers = (*bench.snapshot.layers, *(Layer(f"sha256:{n}", n) for n in extra))
    with bench.sandbox(SandboxSpec(Snapshot(layers))) as sandbox:
        table = run(sandbox, "cat /proc/self/mountinfo; touch /run/new").text
    return table.partition("lowerdir=")[2].partition(",")[0]


def test_mount_points_are_made_only_where_the_image_lacks_one(
    bench: Bench, tmp_path: Path
) -> None:
    ready, hidden = tmp_path / "ready", tmp_path / "hidden"
    (ready / "run" / "rlvr").mkdir(parents=True)
    (hidden / "run").mkdir(parents=True)
    os.setxattr(hidden / "run", "trusted.overlay.opaque", b"y")

    assert lower_layers(bench) == "s:l0"
    assert lower_layers(bench, ready) == "l1:l0"
    assert lower_layers(bench, ready, hidden) == "s:l2:l1:l0"


HOST_FACTS = """
cd /proc
for file in cmdline config.gz diskstats interrupts iomem ioports kallsyms kcore key-users \
    keys kmsg kpagecgroup kpagecount kpageflags mtrr pagetypeinfo slabinfo softirqs \
    timer_list vmallocinfo vmstat zoneinfo buddyinfo partitions swaps cgroups modules
do timeout 2 head -c 64 $file 2>/dev/null; done | wc -c
ls acpi bus driver fs irq pressure scsi 2>/dev/null | grep -v : | grep -c .
touch bus/new uptime
"""


def test_root_inside_reads_nothing_of_the_host_in_proc(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        ran = run(sandbox, HOST_FACTS, user=0)

    assert ran.text.split()[:2] == ["0", "0"]
    assert ran.text.count("Read-only file system") == 2


def test_attempts_by_either_protocol_are_counted_between_turns_too(
    bench: Bench,
) -> None:
    def attempts(sandbox: NamespaceSandbox, host: str) -> int:
        before = sandbox.unrouted()
        run(sandbox, f"for i in 1 2; do (exec 3<>/dev/tcp/{host}/53); done")
        sandbox.pass_turn(1_000_000_000, "clock", b"x")
        counted = sandbox.unrouted() - before
        assert sandbox.unrouted() - before == counted  # asked again, not told again
        sandbox.settle()
        return counted

    with bench.sandbox() as sandbox:
        assert isinstance(sandbox, NamespaceSandbox)
        assert attempts(sandbox, "8.8.8.8") == 2
        assert attempts(sandbox, "2001:4860:4860::8888") == 2


def test_only_the_agents_range_can_be_committed(bench: Bench) -> None:
    with bench.sandbox(bench.spec(id_base=VERIFIER_IDS)) as sandbox:
        sandbox.kill()

        with pytest.raises(ValueError, match="agent's range"):
            sandbox.commit()


def test_the_host_sees_the_agent_as_a_user_of_its_own_range(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        run(sandbox, "touch /tmp/mine")

        assert (sandbox.upper() / "tmp/mine").stat().st_uid == 101_000


def test_destroying_while_frozen_works(bench: Bench) -> None:
    sandbox = bench.backend(bench.spec(), bench.places)
    sandbox.start()
    sandbox.freeze()

    began = time.monotonic()
    sandbox.destroy()

    assert time.monotonic() - began < 5


def test_a_kill_after_a_freeze_still_names_the_survivors(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        run(sandbox, "setsid sleep 5555 &")
        until(lambda: run(sandbox, "pgrep -x sleep").status == 0)
        sandbox.freeze()

        assert sandbox.kill().survivors == ("sleep 5555",)


def test_episodes_leave_no_warning_to_the_collector(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        run(sandbox, "true")
        run(sandbox, "sleep 1000 &")
    gc.collect()


def test_clocks_that_count_from_boot_start_anew(bench: Bench) -> None:
    code = (
        "import time; print(int(time.monotonic()), int(time.clock_gettime(7)),"
        "int(open('/proc/self/stat').read().split()[21]) // 100)"
    )
    with bench.sandbox() as sandbox:
        ran = run(sandbox, f'python3 -S -c "{code}"; cut -d. -f1 /proc/uptime')

    assert all(3600 <= int(word) < 3605 for word in ran.text.split()), ran.text


def test_a_spare_that_is_too_old_is_not_used(bench: Bench) -> None:
    with bench.sandbox():
        spare = runtime(bench.places).hulls._spare
        assert spare is not None
        spare.made -= SPARE_S + 1

        with bench.sandbox() as sandbox:
            assert run(sandbox, "echo fine").text == "fine\n"

    assert not any(folder.exists() for folder in spare.group.folders)


def test_two_stores_in_one_process_do_not_collide(bench: Bench, tmp_path: Path) -> None:
    other = Bench(bench.backend, bench.snapshot, Places(run=tmp_path))
    with bench.sandbox() as one, other.sandbox() as two:
        texts = run(one, "echo one").text, run(two, "echo two").text

    assert texts == ("one\n", "two\n")


def test_there_is_no_user_beyond_the_range(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        for user in (-1, 65_536):
            with pytest.raises(ValueError, match="0 to 65535"):
                run(sandbox, "id", user=user)


UNPRIVILEGED = """
import os
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
from rlvr_envs.errors import MissingRequirement
from rlvr_envs.sandbox.runtime import require_root
try:
    require_root()
except MissingRequirement as error:
    print(error.remedy)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give it up")
def test_without_root_the_remedy_is_named() -> None:
    code = "import rlvr_envs.sandbox.runtime\n" + UNPRIVILEGED
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "run as root" in done.stdout, done.stderr


def test_a_kernel_that_cannot_move_owners_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_proc(packet: Packet, _room: Path, maps: IdMaps) -> None:
        moved = packet.place(maps.between(AGENT_IDS, VERIFIER_IDS))
        packet.add("tree", moved, "/proc", "there")

    NamespaceSandbox.check_system()
    monkeypatch.setattr("rlvr_envs.sandbox.namespaces.system_probe", of_proc)

    with pytest.raises(MissingRequirement, match=r"final root.*Linux 6\.3"):
        NamespaceSandbox.check_system()
