"""The launcher is compiled once, and says what is missing."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.records import Places
from rlvr_envs.sandbox.launcher import launcher, source_digest

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="needs gcc and libc6-dev"
)


@needs_compiler
def test_two_at_once_compile_one_program(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(launcher, [Places(store=tmp_path)] * 2)

    assert first == second
    assert first.name == source_digest()
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_a_program_that_is_there_is_taken(tmp_path: Path) -> None:
    there = tmp_path / "launcher" / source_digest()
    there.parent.mkdir()
    there.write_text("compiled before")

    assert launcher(Places(store=tmp_path)) == there


def test_without_a_compiler_the_packages_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))

    with pytest.raises(MissingRequirement, match="gcc libc6-dev"):
        launcher(Places(store=tmp_path))
