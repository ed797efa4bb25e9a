from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.errors import CallerError
from rlvr_envs.trajectories.encoding import encode
from rlvr_envs.trajectories.record import Kind
from rlvr_envs.trajectories.store import Writer, append_line, new_writer, read

HEADER: dict[str, Any] = {"kind": "header", "schema": 1, "task": "sum", "seed": 3}
RESET: dict[str, Any] = {"kind": "reset", "observation": "Грüß 😀", "info": {}}
TURN: dict[str, Any] = {
    "kind": "turn",
    "turn": 1,
    "action": {"name": "add", "arguments": {"n": 1}},
    "call": {"name": "add", "arguments": {"n": 1}},
    "observation": "total 1",
    "info": {"ok": True},
    "reward": 0.0,
    "terminated": False,
    "truncated": False,
    "channels": {"outcome": 0.0, "path": 0.0},
}
FOOTER: dict[str, Any] = {"kind": "footer", "ending": "terminated", "outcome": {}}
EVENTS = (HEADER, RESET, TURN, FOOTER)


def written(folder: Path) -> Path:
    writer = new_writer(folder, "sum.i0.s3")
    for event in EVENTS:
        writer.append(encode(event))
    writer.close()
    return writer.path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    trajectory = read(written(tmp_path))

    assert trajectory.lines == EVENTS
    assert trajectory.complete
    assert trajectory.turns[0].to_json() == TURN
    assert trajectory.actions == (TURN["action"],)


def test_a_file_cut_at_any_byte_is_read_up_to_its_last_whole_line(
    tmp_path: Path,
) -> None:
    data = written(tmp_path).read_bytes()
    ends = [i for i, byte in enumerate(data) if byte == ord("\n")]
    cut = tmp_path / "cut.jsonl"
    for size in range(len(data)):
        cut.write_bytes(data[:size])
        whole = sum(end <= size for end in ends)

        trajectory = read(cut)

        assert trajectory.lines == EVENTS[:whole], size
        start = ends[whole - 1] + 1 if whole else 0
        assert trajectory.torn_bytes == (0 if size in ends else max(size - start, 0))


def test_a_line_that_was_damaged_in_the_middle_is_named(tmp_path: Path) -> None:
    path = written(tmp_path)
    lines = path.read_bytes().splitlines()
    lines[1] = lines[1][:-3]
    path.write_bytes(b"\n".join(lines) + b"\n")

    with pytest.raises(CallerError, match=rf"{path.name}:2: .* Remedy:"):
        read(path)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    path.write_bytes(encode({**HEADER, "schema": 2}) + b"\n")

    with pytest.raises(CallerError, match="schema 2"):
        read(path)


def test_a_file_that_starts_with_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(encode(RESET) + b"\n" + encode(TURN) + b"\n")

    with pytest.raises(CallerError, match="starts with a header"):
        read(path)


def test_a_missing_file_is_a_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="cannot be read"):
        read(tmp_path / "none.jsonl")


def test_two_writers_never_get_one_file(tmp_path: Path) -> None:
    first = new_writer(tmp_path, "sum")
    second = new_writer(tmp_path, "sum")

    assert first.path != second.path
    with pytest.raises(FileExistsError):
        Writer(first.path)
    with pytest.raises(CallerError, match="being written"):
        append_line(first.path, b"{}")


def test_a_line_can_be_added_after_the_end(tmp_path: Path) -> None:
    path = written(tmp_path)

    append_line(path, encode({"kind": "state", "file": "x.tar"}))

    assert [line["kind"] for line in read(path).lines][-1] == Kind.STATE
    assert read(path).complete


def test_awkward_names_become_plain_ones(tmp_path: Path) -> None:
    writer = new_writer(tmp_path / "deep" / "er", "../a b/ç")

    assert writer.path.parent == tmp_path / "deep" / "er"
    assert writer.path.name.startswith("a-b")
