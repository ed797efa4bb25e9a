from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.cli.doctor import CHECKS, Row, _safely
from rlvr_envs.errors import MissingRequirement
from rlvr_envs.records import Places
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from tests.cli.conftest import Call


def test_every_check_is_a_line_with_a_remedy_where_it_fails(
    rlvr: Call, tmp_path: Path
) -> None:
    said = rlvr("doctor", "--store", tmp_path, "--run-dir", tmp_path / "run", "--json")

    assert [line["check"] for line in said.lines] == list(CHECKS)
    assert all(line["remedy"] for line in said.lines if not line["ok"])


def test_an_empty_store_lacks_launcher_and_image_and_says_what_to_do(
    rlvr: Call, tmp_path: Path
) -> None:
    said = rlvr("doctor", "--store", tmp_path, "--run-dir", tmp_path / "run", "--json")

    rows = {line["check"]: line for line in said.lines}
    assert said.status == 2
    assert not rows["launcher"]["ok"]
    assert "rlvr doctor --fix" in rows["base image"]["remedy"]
    assert "base image: not built. Remedy: rlvr doctor --fix" in said.err


def test_people_get_a_table(rlvr: Call, tmp_path: Path) -> None:
    said = rlvr("doctor", "--store", tmp_path, "--run-dir", tmp_path / "run")

    assert "This machine" in said.out
    assert "missing" in said.out


@pytest.mark.parametrize(
    ("error", "detail", "remedy"),
    [
        (MissingRequirement("No cc.", remedy="install gcc"), "No cc", "install gcc"),
        (PermissionError(13, "Permission denied"), "Permission", "permissions"),
    ],
)
def test_a_check_that_raises_is_a_check_that_fails(
    error: Exception, detail: str, remedy: str
) -> None:
    def check(_places: Places) -> Row:
        raise error

    row = _safely("it", check, Places())

    assert not row.ok
    assert detail in row.detail
    assert remedy in (row.remedy or "")


def test_moving_owners_is_tried_and_lacked_by_tasks_of_the_system_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def refuse() -> None:
        tried.append(True)
        raise MissingRequirement("It cannot.", remedy="use Linux 6.3 or newer")

    monkeypatch.setattr(NamespaceSandbox, "check_system", refuse)
    row = CHECKS["system tasks"](Places())

    assert tried
    assert row.ok
    assert row.remedy == "use Linux 6.3 or newer"
    assert "judged on system state" in row.detail
