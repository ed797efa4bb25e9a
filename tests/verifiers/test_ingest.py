from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers.ingest import Caps, Ingested, ingest
from tests.verifiers.builders import changes_of, frozen


def take(state: FrozenState, target: Path, *artifacts: str, **options: Any) -> Ingested:
    target.mkdir(exist_ok=True)
    return ingest(state, artifacts, target, **options)


def codes(found: Ingested) -> list[str]:
    return sorted({str(item.code) for item in found.evidence})


def test_only_declared_artifacts_cross(tmp_path: Path) -> None:
    state = frozen(tmp_path, {"app/out.txt": "5", "app/notes": "x", "etc/x": "y"})

    found = take(state, tmp_path / "in", "/app/out.txt")

    assert [p.name for p in (tmp_path / "in").rglob("*") if p.is_file()] == ["out.txt"]
    assert (found.checks, found.evidence) == ([], [])


def test_a_missing_artifact_is_left_out(tmp_path: Path) -> None:
    found = take(frozen(tmp_path, {}), tmp_path / "in", "/app/out.txt")

    assert (found.checks, found.evidence) == ([], [])


@pytest.mark.parametrize("target", ["/tests/expected.txt", "/proc/1/root/x", "../x"])
def test_a_link_in_place_of_an_artifact_may_not_leave_its_folder(
    tmp_path: Path, target: str
) -> None:
    state = frozen(tmp_path, {"app/out.txt": f"-> {target}", "x": "5"})

    found = take(state, tmp_path / "in", "/app/out.txt")

    assert codes(found) == ["LINK_ESCAPE"]
    assert not (tmp_path / "in/app/out.txt").exists()
    assert found.checks[0].passed is False


def test_a_link_to_another_file_of_its_folder_is_followed(tmp_path: Path) -> None:
    state = frozen(
        tmp_path, {"app/a": "5", "app/out.txt": "-> a", "app/b": "-> /app/a"}
    )

    found = take(state, tmp_path / "in", "/app")

    assert found.evidence == []
    for name in ("a", "out.txt", "b"):
        assert (tmp_path / "in/app" / name).read_text() == "5"
        assert not (tmp_path / "in/app" / name).is_symlink()


def test_a_chain_of_links_counts_by_its_end(tmp_path: Path) -> None:
    state = frozen(
        tmp_path,
        {"app/out.txt": "-> hop", "app/hop": "-> /etc/hosts", "etc/hosts": "h"},
    )

    found = take(state, tmp_path / "in", "/app/out.txt")

    assert codes(found) == ["LINK_ESCAPE"]


def test_a_link_that_only_leads_to_the_system_is_left_out_unflagged(
    tmp_path: Path,
) -> None:
    left = {"app/venv/bin/python": "-> /usr/bin/python3", "usr/bin/python3": "elf"}
    state = frozen(tmp_path, left)

    found = take(state, tmp_path / "in", "/app")

    assert (found.checks, found.evidence) == ([], [])
    assert not (tmp_path / "in/app/venv/bin/python").exists()


def test_a_link_to_the_judges_folders_is_flagged_anywhere(tmp_path: Path) -> None:
    state = frozen(tmp_path, {"app/o2": "-> /proc/1/root/tests/expected.txt"})

    assert codes(take(state, tmp_path / "in", "/app")) == ["LINK_ESCAPE"]


def test_a_folder_that_became_a_link_is_refused(tmp_path: Path) -> None:
    left = {"app": "-> /srv", "srv/out.txt": "5"}
    state = frozen(tmp_path, left)

    assert codes(take(state, tmp_path / "in", "/app/out.txt")) == ["LINK_ESCAPE"]


def test_a_folder_link_inside_an_artifact_stays_a_link(tmp_path: Path) -> None:
    state = frozen(tmp_path, {"app/v1/a": "5", "app/current": "-> v1"})

    found = take(state, tmp_path / "in", "/app")

    assert found.evidence == []
    assert (tmp_path / "in/app/current").readlink() == Path("v1")
    assert (tmp_path / "in/app/current/a").read_text() == "5"


def test_a_fifo_where_an_artifact_is_read_hinders_grading(tmp_path: Path) -> None:
    state = frozen(tmp_path, {"app": None})
    os.mkfifo(state.root / "app/out.txt")

    found = take(state, tmp_path / "in", "/app", wanted=["/app/out.txt"])

    assert codes(found) == ["HARNESS_TAMPER", "LINK_ESCAPE"]
    assert found.checks[0].passed is False


def test_a_daemons_socket_is_left_out_unflagged(tmp_path: Path) -> None:
    state = frozen(tmp_path, {"app/out.txt": "5"})
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(state.root / "app", os.O_PATH)
        server.bind(f"/proc/self/fd/{folder}/s")
        os.close(folder)

    found = take(state, tmp_path / "in", "/app", wanted=["/app/out.txt"])

    assert (found.checks, found.evidence) == ([], [])


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to own files by others")
def test_a_hard_link_to_roots_file_is_flagged_and_ones_own_is_not(
    tmp_path: Path,
) -> None:
    left = {"app/out.txt": "5", "app/own": "6"}
    state = frozen(tmp_path, left)
    os.link(state.root / "app/out.txt", state.root / "elsewhere")
    os.link(state.root / "app/own", state.root / "app/copy")
    os.chown(state.root / "app/own", state.id_base + 1000, state.id_base + 1000)

    stolen = take(state, tmp_path / "in", "/app/out.txt")
    honest = take(state, tmp_path / "in2", "/app/own")

    assert codes(stolen) == ["LINK_ESCAPE"]
    assert honest.evidence == []


@pytest.mark.parametrize(
    "caps", [Caps(files=2), Caps(total_bytes=4), Caps(file_bytes=1), Caps(depth=0)]
)
def test_what_passes_a_cap_is_a_failed_check(tmp_path: Path, caps: Caps) -> None:
    state = frozen(tmp_path, {"app/a": "xx", "app/b": "yy", "app/c/d": "zz"})

    found = take(state, tmp_path / "in", "/app", caps=caps)

    assert any(not check.passed for check in found.checks)
    assert found.evidence == []


def test_a_name_with_control_characters_is_refused(tmp_path: Path) -> None:
    state = frozen(tmp_path, {"app/a\nb": "x"})

    found = take(state, tmp_path / "in", "/app")

    assert "control" in found.checks[0].reason


def test_a_path_that_no_program_could_open_is_a_failed_check(tmp_path: Path) -> None:
    state = frozen(tmp_path, {"app/out.txt": "5"})
    _nest(state.root / "app", name="a" * 250, levels=20)

    found = take(state, tmp_path / "in", "/app")

    assert [check.passed for check in found.checks] == [False]
    assert "bytes" in found.checks[0].reason


def _nest(folder: Path, *, name: str, levels: int) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _level in range(levels):
        os.mkdir(name, dir_fd=here)
        there = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = there
    os.close(here)


def test_names_that_are_no_utf8_cross(tmp_path: Path) -> None:
    state = frozen(tmp_path, {"app/\udcff": "x", "app/é": "y"})

    take(state, tmp_path / "in", "/app")

    names = [path.name for path in (tmp_path / "in/app").iterdir()]
    assert sorted(names) == ["é", "\udcff"]


def test_setuid_bits_and_owners_stay_behind(tmp_path: Path) -> None:
    state = frozen(tmp_path, {"app/run": "#!/bin/sh\n"})
    (state.root / "app/run").chmod(0o6755)

    take(state, tmp_path / "in", "/app")

    assert (tmp_path / "in/app/run").stat().st_mode & 0o7777 == 0o755


def test_changes_are_needed_for_a_flag_but_not_for_a_refusal(tmp_path: Path) -> None:
    tree = {"app/out.txt": "-> /etc/hosts", "etc/hosts": "h"}
    state = frozen(tmp_path, {}, before=tree, changes=changes_of({}))

    take(state, tmp_path / "in", "/app")

    assert not (tmp_path / "in/app/out.txt").exists()


def test_a_link_to_other_data_is_suspicious_only(tmp_path: Path) -> None:
    state = frozen(tmp_path, {"app/a": "-> /data/a", "data/a": "5"})

    found = take(state, tmp_path / "in", "/app")

    assert (found.checks, found.evidence) == ([], [])
    assert [str(item.code) for item in found.suspicions] == ["LINK_ESCAPE"]
