"""Building a Dockerfile with a builder that is there: a Docker daemon, or buildah.

The direct route needs none; these are for what it cannot do: foreign base images,
packages and the network, further stages, other users. They pull and fetch as their
own configuration lets them.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from rlvr_envs.errors import MissingRequirement, TaskError
from rlvr_envs.importing.folders import task_name
from rlvr_envs.importing.harbor import HarborTask
from rlvr_envs.records import Places
from rlvr_envs.sandbox.docker_daemon import Daemon
from rlvr_envs.snapshots.sources.base import Source
from rlvr_envs.snapshots.sources.docker import DockerSource
from rlvr_envs.snapshots.sources.oci import OciSource
from rlvr_envs.snapshots.store import ImageStore

BUILD_TIMEOUT_S = 1800
SHOWN_CHARACTERS = 2000

Builder = Callable[[HarborTask], str | None]
"""Returns the name of a finished image in the store, or None for the direct route."""


def builder(name: str, *, places: Places, url: str = "") -> Builder:
    """Return a builder by name.

    Args:
        name: ``none``, ``docker`` or ``buildah``.
        places: Where the finished images go.
        url: Socket of the Docker daemon; its usual one where empty.

    Raises:
        MissingRequirement: If it is not there.
    """
    return _BUILDERS[name](places, url)


def _direct(_places: Places, _url: str) -> Builder:
    return lambda _task: None


def _docker(places: Places, url: str) -> Builder:
    client = (Daemon(url) if url else Daemon()).client()
    errors = importlib.import_module("docker.errors")

    def build(task: HarborTask) -> str:
        tag = f"rlvr-import:{task_name(task.name)}"
        try:
            client.images.build(path=str(_context(task)), tag=tag, rm=True)
        except errors.DockerException as error:
            raise _failed(task, str(error)) from error
        return _stored(task, places, DockerSource(tag, connect=lambda: client))

    return build


def _buildah(places: Places, _url: str) -> Builder:
    program = shutil.which("buildah")
    if program is None:
        raise MissingRequirement(
            "There is no buildah.",
            remedy="apt-get install buildah; or leave out --builder.",
        )

    def build(task: HarborTask) -> str:
        tag = f"rlvr-import:{task_name(task.name)}"
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "image.tar"
            context = str(_context(task))
            _call(task, [program, "build", "--isolation=chroot", "-t", tag, context])
            _call(task, [program, "push", tag, f"oci-archive:{archive}"])
            return _stored(task, places, OciSource(archive))

    return build


def _call(task: HarborTask, argv: list[str]) -> None:
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=BUILD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(task, f"it took longer than {BUILD_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise _failed(task, done.stderr.decode(errors="replace"))


def _context(task: HarborTask) -> Path:
    return task.folder / "environment"


def _failed(task: HarborTask, said: str) -> TaskError:
    return TaskError(
        f"The image cannot be built: {said[-SHOWN_CHARACTERS:]}",
        file=_context(task) / "Dockerfile",
    )


def _stored(task: HarborTask, places: Places, source: Source) -> str:
    name = f"harbor-{task_name(task.name)}"
    ImageStore(places).build(name, source)
    return name


_BUILDERS: Mapping[str, Callable[[Places, str], Builder]] = {
    "none": _direct,
    "docker": _docker,
    "buildah": _buildah,
}
