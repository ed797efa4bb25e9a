"""The layer that pins the clock is built aside, and stands whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rlvr_envs.errors import SandboxError
from rlvr_envs.records import Places
from rlvr_envs.sandbox.clock import clock_layer


def test_a_build_leaves_the_layer_alone(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    layer = clock_layer(Places(store=tmp_path))

    assert (layer.path / "etc/ld.so.preload").is_file()
    assert list((tmp_path / "clock").iterdir()) == [layer.path]
    assert list((tmp_path / "partial").iterdir()) == []
    assert clock_layer(Places(store=tmp_path)) == layer


def test_a_build_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "bin" / "cc"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(compiler.parent))
    store = tmp_path / "store"

    with pytest.raises(SandboxError, match="failed on libpin"):
        clock_layer(Places(store=store))

    assert [path for path in store.rglob("*") if path.is_file()] == []
