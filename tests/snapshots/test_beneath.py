from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.errors import SnapshotError
from rlvr_envs.snapshots.beneath import resolve_over, resolve_parent


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "var").mkdir()
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "usr/up").symlink_to("../../../../var")
    (tmp_path / "round").symlink_to("round")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("/bin/tool", "usr/bin/tool"),
        ("bin", "bin"),
        ("/var/run/x", "run/x"),
        ("/usr/up/x", "var/x"),
        ("/../../etc/x", "etc/x"),
        ("/bin/../x", "usr/x"),
        ("/bin/..", "usr"),
        ("/new/folder/x", "new/folder/x"),
        ("//usr/./bin//x", "usr/bin/x"),
        ("/", ""),
    ],
)
def test_a_path_is_resolved_as_a_chroot_would(
    root: Path, path: str, resolved: str
) -> None:
    assert resolve_over([root], path) == resolved
    assert resolve_parent(root, path) == root / resolved


def test_links_that_go_round_are_an_error(root: Path) -> None:
    with pytest.raises(SnapshotError, match="round in circles"):
        resolve_parent(root, "/round/x")


def test_the_upper_tree_covers_the_lower(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    upper = tmp_path_factory.mktemp("upper")
    (upper / "bin").mkdir()
    (upper / "opt").symlink_to("/var/run")

    assert resolve_over([upper, root], "/bin/x") == "bin/x"
    assert resolve_over([upper, root], "/opt/x") == "run/x"
