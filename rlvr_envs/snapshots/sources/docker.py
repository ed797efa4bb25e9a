"""A root file system out of a Docker image, through the Docker SDK."""

from __future__ import annotations

import importlib
import io
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typing_extensions import override

from rlvr_envs.errors import MissingRequirement, SnapshotError
from rlvr_envs.snapshots.finishing import packages
from rlvr_envs.snapshots.sources.base import LATEST_S, Progress, Provenance
from rlvr_envs.snapshots.unpack import Unpacker


class DockerSource:
    """What ``docker create`` and ``docker export`` give for an image."""

    def __init__(
        self,
        reference: str,
        *,
        connect: Callable[[], Any] | None = None,
        latest_s: int = LATEST_S,
    ) -> None:
        """Plan a build.

        Args:
            reference: ``name:tag``, ``name@sha256:...`` or ``sha256:...``.
            connect: Makes a Docker SDK client; by default from the environment.
            latest_s: As the contract says.
        """
        self._reference = reference
        self._connect = connect or connect_from_environment
        self._latest_s = latest_s

    @property
    def latest_s(self) -> int:
        """As it was asked for."""
        return self._latest_s

    def fill(self, root: Path, *, progress: Progress) -> Provenance:
        """Export the image; it is pulled if the daemon does not have it.

        Raises:
            MissingRequirement: If the SDK or the daemon is not there.
            SnapshotError: If the image cannot be had, or has another digest.
        """
        with _docker_errors(self._reference):
            client = self._connect()
            image = self._image(client, progress)
            self._check_digest(image)
            progress(f"Exporting {self._reference}.")
            _export(client, image.id, root)
            version = client.version()["Version"]
        return Provenance(
            "docker", str(image.id), f"docker {version}", packages=packages(root)
        )

    def _image(self, client: Any, progress: Progress) -> Any:
        try:
            return client.images.get(self._reference)
        except importlib.import_module("docker.errors").ImageNotFound:
            progress(f"Pulling {self._reference}.")
            return client.images.pull(self._reference)

    def _check_digest(self, image: Any) -> None:
        _, found, wanted = self._reference.partition("sha256:")
        known = [image.id, *image.attrs.get("RepoDigests", [])]
        if found and not any(name.endswith(f"sha256:{wanted}") for name in known):
            raise SnapshotError(
                f"Docker's image for {self._reference} has the digests "
                f"{', '.join(known)}.",
                remedy="pull the image again, or name the digest that it has.",
            )


def connect_from_environment() -> Any:
    """Return a client for the daemon that the environment names.

    Raises:
        MissingRequirement: If the SDK is not installed, or no daemon answers.
    """
    try:
        docker = importlib.import_module("docker")
    except ImportError as error:
        raise MissingRequirement(
            "The Docker SDK for Python is not installed.",
            remedy="pip install 'rlvr-envs[docker]', or take another source.",
        ) from error
    try:
        client = docker.from_env(timeout=600)
        client.ping()
    except docker.errors.DockerException as error:
        raise MissingRequirement(
            f"No Docker daemon answers: {error}.",
            remedy="start one (apt-get install docker.io) or set DOCKER_HOST; an OCI "
            "archive needs no daemon: `rlvr images build --from oci:FILE`.",
        ) from error
    return client


@contextmanager
def _docker_errors(reference: str) -> Iterator[None]:
    try:
        errors = importlib.import_module("docker.errors").DockerException
    except ImportError:
        errors = MissingRequirement
    try:
        yield
    except errors as error:
        if isinstance(error, MissingRequirement):
            raise
        raise SnapshotError(
            f"Docker cannot give the image {reference}: {error}.",
            remedy="check the name with `docker image ls`, and that the daemon can "
            "reach its registry.",
        ) from error


def _export(client: Any, image: str, root: Path) -> None:
    container = client.containers.create(image, command=["true"], network_disabled=True)
    try:
        stream = io.BufferedReader(_Chunks(container.export()))
        unpacker = Unpacker(root)
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                unpacker.take(archive, member)
        unpacker.finish()
    finally:
        container.remove(force=True)


class _Chunks(io.RawIOBase):
    """An iterator of chunks, read as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
