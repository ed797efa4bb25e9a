"""An examiner: reads one job over its own pipe, runs the tests, writes the verdict."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from _pytest.config import _prepareconfig
from _pytest.main import Session

from rlvr_envs.sandbox.inside import confine, link, plain, plugin, wire

WORK = confine.WORK
LINKS = ".links"

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": str(WORK / "home"),
    "USER": "candidate",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
"""The whole environment of tests and candidates."""

_UNUSED = ("cacheprovider", "doctest", "junitxml", "pastebin", "nose", "stepwise")
_SYSTEM = [
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "proc",
    "run",
    "sbin",
    "sys",
    "usr",
    "var",
    "tmp",
    "verifier",
    "submission",
]
"""Top folders in which no artifact is shown at its own path."""

Template = tuple[Session, plugin.Plugin]


def prepare(fixtures: Path) -> Template:
    """Configure pytest once, before any job is known."""
    os.environ.clear()
    os.environ.update(ENVIRONMENT, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    os.chdir(fixtures)
    hooks = plugin.Plugin()
    off = [part for name in _UNUSED for part in ("-p", f"no:{name}")]
    fixed = ["-q", "--capture=no", f"--rootdir={fixtures}", "-c", os.devnull]
    config = _prepareconfig([*off, *fixed], plugins=[hooks])
    config._do_configure()  # noqa: SLF001 (what pytest's own main does)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    config.pluginmanager.unregister(reporter)
    del os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]
    session = Session.from_config(config)
    config.hook.pytest_sessionstart(session=session)
    return session, hooks


def run(template: Template, payload: int, verdict: int, zygote: socket.socket) -> None:
    """Do one job.

    Args:
        template: From `prepare`.
        payload: Descriptor of the job: one frame, then the files' bytes.
        verdict: Descriptor that the result is framed to.
        zygote: Forks candidates, and kills them.
    """
    request = wire.receive(payload)
    found: dict[str, Any] = {"nonce": request["nonce"]}
    try:
        root = _unpack(request, payload)
        os.close(payload)
        found |= _examine(template, request, root=root, zygote=zygote)
    except Exception:  # noqa: BLE001 (told to the host, whatever it is)
        found["fault"] = traceback.format_exc()[-2000:]
    wire.send(verdict, found)


def _unpack(request: dict[str, Any], payload: int) -> Path:
    for name in request["folders"]:
        Path("/", name).mkdir(mode=0o755, parents=True, exist_ok=True)
    with os.fdopen(os.dup(payload), "rb") as source:
        for name, mode, size in request["files"]:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(f"/{name}", flags, mode), "wb") as file:
                file.write(source.read(size))
    for name, target in request["symlinks"]:
        Path("/", name).symlink_to(target)
    for folder, mode in ((WORK, 0o755), (WORK / "home", 0o700)):
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    os.chown(WORK / "home", confine.USER, confine.USER)
    return Path("/")


def _examine(
    template: Template, request: dict[str, Any], *, root: Path, zygote: socket.socket
) -> dict[str, Any]:
    fixtures, submission = root / "verifier", root / "submission"
    _show(fixtures, submission, request["links"])
    candidate = link.Candidate(
        zygote,
        root=submission,
        import_from=request["import_from"],
        timeout_s=request["test_timeout_s"],
    )
    _silence()
    with contextlib.suppress(OSError):
        os.chdir(candidate.path(request["import_from"]))
    _guard_fixtures(fixtures, candidate)
    link.confine_children(candidate)
    session, hooks = template
    hooks.arm(
        candidate,
        hidden=_hidden(fixtures),
        work=WORK,
        limit_s=request["test_timeout_s"],
        until=time.monotonic() + request["timeout_s"],
    )
    collected = _session(session, hooks, [str(fixtures / t) for t in request["tests"]])
    return {
        "collected": collected,
        "tests": [[name, *result] for name, result in hooks.results.items()],
        "marks": [list(mark) for mark in candidate.marks],
        "troubles": [list(trouble) for trouble in hooks.troubles],
    }


def _session(session: Session, hooks: plugin.Plugin, tests: list[str]) -> list[str]:
    # It has looked for a conftest before the tests were there, and remembers none.
    session.config.pluginmanager._dirpath2confmods.clear()  # noqa: SLF001
    session.perform_collect(tests)
    collected = [item.nodeid for item in session.items]
    if not hooks.troubles:
        with contextlib.suppress(BaseException):
            session.config.hook.pytest_runtestloop(session=session)
    return collected


def _hidden(fixtures: Path) -> Any:
    file = fixtures / "hidden.json"
    return plain.loads(file.read_bytes()) if file.exists() else {}


def _silence() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def _guard_fixtures(fixtures: Path, candidate: link.Candidate) -> None:
    """Refuse to open a fixture through a link that a candidate laid elsewhere."""
    inside = f"{fixtures}/"

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(args[0], (str, bytes)):
            return
        path = os.path.abspath(os.fsdecode(args[0]))  # noqa: PTH100 (no links)
        if path.startswith((inside, "/usr/")):
            return
        if os.path.realpath(path).startswith(inside):
            candidate.mark("LINK_ESCAPE", "a link led a test to its own fixtures")
            raise PermissionError(f"{path} leads to a fixture")

    sys.addaudithook(hook)


def _show(fixtures: Path, submission: Path, artifacts: list[str]) -> None:
    """Link artifacts to their own absolute paths where the image has nothing."""
    made: list[str] = []
    for artifact in artifacts:
        target = Path(artifact)
        if target.parts[1] in _SYSTEM or os.path.lexists(target):
            continue
        for folder in reversed(target.parents):
            if not folder.exists():
                folder.mkdir(mode=0o755)
                made.append(str(folder))
        target.symlink_to(submission / artifact.lstrip("/"))
        made.append(artifact)
    (fixtures / LINKS).write_text(json.dumps(made))


def unlink(fixtures: Path) -> None:
    """Remove what `_show` made."""
    try:
        made = json.loads((fixtures / LINKS).read_text())
    except FileNotFoundError:
        return
    for name in reversed(made):
        path = Path(name)
        if path.is_symlink():
            path.unlink()
        else:
            path.rmdir()
