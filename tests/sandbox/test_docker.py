"""The docker backend keeps the contract, and leaves nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.errors import MissingRequirement, SandboxError
from rlvr_envs.records import Layer, Places, Snapshot
from rlvr_envs.rollouts.replay import make
from rlvr_envs.sandbox.base import Bind, Capability, SandboxSpec
from rlvr_envs.sandbox.conformance import CHECKS, Bench, Check
from rlvr_envs.sandbox.conformance_kit import run
from rlvr_envs.sandbox.docker import DockerSandbox, docker_backend
from rlvr_envs.sandbox.docker_daemon import OWNER, Daemon, sweep
from rlvr_envs.sandbox.runner import close_pools
from rlvr_envs.tasks.scripts import gold, null
from tests.dockerd import dockerd
from tests.processes import eventually

pytestmark = pytest.mark.docker

CHILD = """
import json, sys
from pathlib import Path
from rlvr_envs.records import Layer, Places, Snapshot
from rlvr_envs.sandbox.base import SandboxSpec
from rlvr_envs.sandbox.docker import docker_backend
from rlvr_envs.sandbox.docker_daemon import Daemon

url, store, folder, digest, path = sys.argv[1:]
spec = SandboxSpec(Snapshot((Layer(digest, Path(path)),)))
sandbox = docker_backend(Daemon(url))(spec, Places(Path(store), Path(folder)))
sandbox.start()
print("started", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with (
        tempfile.TemporaryDirectory(prefix="dockerd-") as name,
        dockerd(Path(name)) as d,
    ):
        yield d


@pytest.fixture(scope="module")
def backend(daemon: Daemon) -> type[DockerSandbox]:
    return docker_backend(daemon)


@pytest.fixture(scope="module")
def docker_places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    folder = tmp_path_factory.mktemp("docker")
    return Places(store=folder / "store", run=folder / "run")


@pytest.fixture
def docker_bench(
    backend: type[DockerSandbox], base_snapshot: Snapshot, docker_places: Places
) -> Bench:
    return Bench(backend, base_snapshot, docker_places)


@pytest.mark.parametrize(
    "check",
    [check for check in CHECKS if check.applies(DockerSandbox)],
    ids=lambda check: check.name,
)
def test_docker(check: Check, docker_bench: Bench) -> None:
    check.run(docker_bench)


def test_quotas_are_not_claimed() -> None:
    claimed = DockerSandbox.capabilities()

    assert not claimed & {Capability.DISK_QUOTA, Capability.INODE_QUOTA}


def test_a_layer_is_loaded_once(docker_bench: Bench, daemon: Daemon) -> None:
    with docker_bench.sandbox() as first:
        run(first, "echo mine > /etc/mine; rm /etc/issue", user=0)
        first.kill()
        sealed = first.commit()
    try:
        grown = Snapshot((*docker_bench.snapshot.layers, sealed.layer))
        packed = _archives(docker_bench.places)
        with docker_bench.sandbox(SandboxSpec(grown)) as second:
            said = run(second, "cat /etc/mine; ls /etc/issue").text

        assert said.startswith("mine\n")
        assert "No such file" in said
        assert packed == _archives(docker_bench.places) == []
        images = daemon.client().images.list(filters={"label": "rlvr-envs"})
        bases = {image.attrs["RootFS"]["Layers"][0] for image in images}
        assert len(bases) == 1
    finally:
        sealed.close()


def _archives(places: Places) -> list[Path]:
    return list((places.store / "docker").rglob("*.tar"))


def test_a_final_root_becomes_no_image(docker_bench: Bench, daemon: Daemon) -> None:
    with docker_bench.sandbox() as episode:
        run(episode, "echo left > /tmp/left; truncate -s 2T /tmp/vast; rm /etc/issue")
        run(episode, "rm /etc/issue", user=0)
        episode.kill()
        before = len(daemon.client().images.list())
        final = Snapshot((Layer("sha256:final", episode.view(), shifted=True),))
        with docker_bench.sandbox(SandboxSpec(final)) as judge:
            ran = run(judge, "echo more >> /tmp/left; cat /tmp/left; ls /etc/issue")

        assert ran.text.startswith("left\nmore\n")
        assert "No such file" in ran.text
        assert (episode.view() / "tmp/left").read_text() == "left\n"
        assert len(daemon.client().images.list()) == before


def test_a_branch_of_a_branch_means_both(docker_bench: Bench) -> None:
    layers = docker_bench.snapshot.layers
    kept = []
    try:
        for command in (
            "echo 1 > /srv/a; echo 1 > /srv/b",
            "echo 2 > /srv/b; rm /srv/a",
        ):
            with docker_bench.sandbox(SandboxSpec(Snapshot(layers))) as sandbox:
                run(sandbox, command, user=0)
                kept.append(sandbox.branch())
                layers = (*layers, kept[-1].layer)
        with docker_bench.sandbox(SandboxSpec(Snapshot(layers))) as sandbox:
            said = run(sandbox, "cd /srv; echo *; cat b").text
    finally:
        for sealed in kept:
            sealed.close()

    assert said == "b\n2\n"


def test_an_attached_folder_cannot_be_written(
    docker_bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "given").write_text("given")
    with docker_bench.sandbox(docker_bench.spec(targets=("/attached",))) as sandbox:
        sandbox.attach(Bind(tmp_path, "/attached"))

        said = run(
            sandbox, "cat /attached/given; echo x > /attached/given", user=0
        ).text

    assert said.startswith("given")
    assert "Read-only file system" in said


def test_the_daemons_own_files_are_no_part_of_the_final_root(
    docker_bench: Bench,
) -> None:
    with docker_bench.sandbox() as sandbox:
        sandbox.kill()

        assert not (sandbox.view() / ".dockerenv").exists()
        assert not (sandbox.upper() / "run" / "rlvr").exists()


def test_a_killed_trainer_leaves_no_container(
    docker_bench: Bench, daemon: Daemon
) -> None:
    layer, places = docker_bench.snapshot.layers[0], docker_bench.places
    words = [daemon.url, places.store, places.run, layer.digest, layer.path]
    trainer = subprocess.Popen(
        [sys.executable, "-c", CHILD, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with trainer:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == "started\n"
        mine = _owned(daemon)
        assert mine
        trainer.send_signal(signal.SIGKILL)

    run_folder = places.run / "docker"
    name = f"-{trainer.pid}-"
    assert eventually(lambda: not set(mine) & set(_owned(daemon)))
    assert eventually(
        lambda: not any(name in path.name for path in run_folder.iterdir())
    )


def test_a_sweep_spares_the_living(docker_bench: Bench, daemon: Daemon) -> None:
    with docker_bench.sandbox() as sandbox:
        assert sweep(daemon, docker_bench.places) == 0
        assert run(sandbox, "echo alive").text == "alive\n"


def _owned(daemon: Daemon) -> list[str]:
    found: list[Any] = daemon.client().containers.list(
        all=True, filters={"label": OWNER}, ignore_removed=True
    )
    return [container.id for container in found]


def test_an_unknown_runtime_is_named_with_the_known_ones(daemon: Daemon) -> None:
    other = Daemon(daemon.url, runtime="kata-qemu")

    with pytest.raises(MissingRequirement, match="runc"):
        docker_backend(other).check()


def test_a_killed_sandbox_starts_no_process(docker_bench: Bench) -> None:
    with docker_bench.sandbox() as sandbox:
        sandbox.kill()

        with pytest.raises(SandboxError, match="was killed"):
            run(sandbox, "true")


def test_the_containers_settings_are_the_narrow_ones(
    docker_bench: Bench, daemon: Daemon
) -> None:
    with docker_bench.sandbox():
        (name,) = _owned(daemon)
        config = daemon.client().containers.get(name).attrs["HostConfig"]

    assert config["NetworkMode"] == "none"
    assert config["CapDrop"] == ["ALL"]
    assert not config["Privileged"]
    assert "no-new-privileges" in config["SecurityOpt"]
    assert config["Memory"] == config["MemorySwap"] > 0
    assert config["PidsLimit"] > 0
    assert all(not mount["RW"] for mount in _mounts(config))


def _mounts(config: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"RW": not mount.get("ReadOnly", False)} for mount in config["Mounts"]]


@pytest.mark.parametrize("task", ["sum-integers", "shared-folder"])
def test_gold_passes_in_containers_and_null_does_not(
    task: str, backend: type[DockerSandbox], base_snapshot: Snapshot
) -> None:
    env = make("rlvr/Terminal-v0", {"sandbox": backend})
    instance = env.get_wrapper_attr("taskset").instance(task, 0)
    found = []
    info: dict[str, Any] = {}
    try:
        for script in (gold(instance), null()):
            env.reset(seed=0, options={"task": task})
            for call in script.calls:
                *_, info = env.step(call.to_json())
            found.append(info["outcome"]["reward"])
    finally:
        env.close()
        close_pools()

    assert found == [1.0, 0.0]
