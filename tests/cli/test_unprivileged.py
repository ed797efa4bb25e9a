"""Called by a user who may not read the store: told, and told what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvr_envs.cli.doctor import CHECKS, _safely
from rlvr_envs.records import Places
from tests.cli.conftest import Call

NOBODY = 65_534


@pytest.fixture
def locked_store(tmp_path: Path) -> Iterator[Path]:
    """A store of root's, for a caller who is nobody until the test ends."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    store = tmp_path / "store"
    for name in ("names", "locks", "images"):
        (store / name).mkdir(parents=True, mode=0o700)
    (store / "names" / "base.json").write_text("{}")
    for folder in tmp_path.parents[:2]:
        folder.chmod(0o755)
    tmp_path.chmod(0o755)
    os.setresuid(NOBODY, NOBODY, 0)
    yield store
    os.setresuid(0, 0, 0)


@pytest.mark.parametrize(
    "words",
    [
        ["images", "list"],
        ["images", "build"],
        ["images", "verify"],
        ["images", "verify", "base"],
        ["images", "prune"],
    ],
)
def test_a_store_that_may_not_be_read_is_told(
    rlvr: Call, locked_store: Path, words: list[str]
) -> None:
    said = rlvr(*words, "--store", locked_store)

    assert said.status == 2
    assert f"The image store {locked_store} cannot be" in said.err
    assert said.err.count("Remedy: run as root, or choose a store that you own") == 1


@pytest.mark.parametrize("check", ["store", "base image"])
def test_the_doctor_says_whose_store_it_is(locked_store: Path, check: str) -> None:
    row = _safely(check, CHECKS[check], Places(store=locked_store))

    assert not row.ok
    assert "a store that you own" in (row.remedy or "")
