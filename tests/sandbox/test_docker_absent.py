"""Without a daemon the docker backend says what is missing, and how to get it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.records import Layer, Places, Snapshot
from rlvr_envs.sandbox.base import SandboxSpec
from rlvr_envs.sandbox.docker import docker_backend
from rlvr_envs.sandbox.docker_daemon import Daemon


def test_an_absent_daemon_names_the_package(tmp_path: Path) -> None:
    pytest.importorskip("docker", reason="the Docker SDK is not installed")
    nobody = Daemon(f"unix://{tmp_path}/none")

    with pytest.raises(MissingRequirement, match=r"apt-get install docker\.io"):
        nobody.client()


def test_a_sandbox_without_a_daemon_does_not_start(tmp_path: Path) -> None:
    pytest.importorskip("docker", reason="the Docker SDK is not installed")
    backend = docker_backend(Daemon(f"unix://{tmp_path}/none"))
    spec = SandboxSpec(Snapshot((Layer("sha256:0", tmp_path),)))
    sandbox = backend(spec, Places(tmp_path / "store", tmp_path / "run"))

    with pytest.raises(MissingRequirement):
        sandbox.start()

    assert not (tmp_path / "run").exists()
