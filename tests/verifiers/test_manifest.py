from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.verifiers.manifest import Altered, manifest_of, pin
from tests.verifiers.builders import lay


def pinned(tmp_path: Path) -> tuple[Path, dict[str, str], Path]:
    folder = lay(tmp_path / "verifier", {"test_a.py": "1", "data/x.json": "{}"})
    target = tmp_path / "copy"
    target.mkdir()
    return folder, manifest_of(folder), target


def test_an_unchanged_folder_is_copied(tmp_path: Path) -> None:
    folder, manifest, target = pinned(tmp_path)

    pin(folder, manifest, target)

    assert (target / "data/x.json").read_text() == "{}"
    assert set(manifest) == {"test_a.py", "data/x.json"}


@pytest.mark.parametrize(
    "alter",
    [
        lambda folder: (folder / "test_a.py").write_text("2"),
        lambda folder: (folder / "test_a.py").unlink(),
        lambda folder: (folder / "conftest.py").write_text(""),
        lambda folder: (folder / "link").symlink_to("/etc/passwd"),
    ],
    ids=["changed", "removed", "added", "linked"],
)
def test_an_altered_folder_is_refused(tmp_path: Path, alter: object) -> None:
    folder, manifest, target = pinned(tmp_path)
    alter(folder)  # type: ignore[operator]  # a callable of the table above

    with pytest.raises(Altered):
        pin(folder, manifest, target)


def test_a_bytecode_cache_is_no_alteration(tmp_path: Path) -> None:
    folder, manifest, target = pinned(tmp_path)
    lay(folder, {"__pycache__/test_a.pyc": "x"})

    pin(folder, manifest, target)

    assert not (target / "__pycache__").exists()


def test_a_task_without_verifier_files_has_an_empty_manifest(tmp_path: Path) -> None:
    assert manifest_of(tmp_path / "none") == {}
    pin(tmp_path / "none", {}, tmp_path)
