"""A root file system out of a distribution's packages, by mmdebstrap.

Two builds with the same package versions give the same content digest. What can
make it differ: versions that the archive no longer has (`images.check_drift` lists
them), another processor architecture, and another release of mmdebstrap, apt or dpkg
on the host, since they lay some files of their own.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlvr_envs.errors import MissingRequirement, SnapshotError
from rlvr_envs.snapshots.finishing import packages
from rlvr_envs.snapshots.recipes import ImageLock, ImageRecipe
from rlvr_envs.snapshots.sources.base import Progress, Provenance
from rlvr_envs.snapshots.tree import clamp_times

APT = Path("/etc/apt")
TIMEOUT_S = 1800
KEPT_LINES = 40
PINS = "rlvr-lock"

# Names without which a stanza is not the distribution's own archive.
POCKETS = ("", "-updates", "-security")

PRUNED = (
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
)

# What of the host's own apt settings a download may need.
HOST_SETTINGS = re.compile(r"^Acquire::(https?|ftp|Retries|ForceIPv[46])\b.*[^:]\";$")

COMPILE = shlex.split(
    "/usr/bin/python3 -I -m compileall -q -q -f --invalidation-mode timestamp"
)

UNSOLVABLE = ("unmet dependencies", "held broken packages", "Unable to correct")


class DebianSource:
    """mmdebstrap with the host's own apt sources, keys and proxies."""

    def __init__(
        self,
        recipe: ImageRecipe,
        lock: ImageLock,
        *,
        sources: Path | None = None,
        apt: Path = APT,
    ) -> None:
        """Plan a build.

        Args:
            recipe: What to install.
            lock: Versions to prefer where the archive still has them.
            sources: An apt sources file to use in place of the host's own.
            apt: The host's apt configuration.
        """
        self._recipe = recipe
        self._lock = lock
        self._sources = sources
        self._apt = apt

    @property
    def latest_s(self) -> int:
        """As the recipe says."""
        return self._recipe.latest_s

    def fill(self, root: Path, *, progress: Progress) -> Provenance:
        """Install the packages.

        Raises:
            MissingRequirement: If mmdebstrap or root's privileges are not there.
            SnapshotError: If it fails; the last lines that it printed are shown.
        """
        tool = check_tool()
        work = root.parent
        mirrors = self._mirrors(work)
        pinned = self._pins(work)
        try:
            self._run(root, mirrors, pinned, progress)
        except _Unsolvable:
            progress("The locked versions no longer fit together; taking newer ones.")
            shutil.rmtree(root)
            root.mkdir()
            self._run(root, mirrors, None, progress)
        compile_python(root, latest_s=self.latest_s)
        return Provenance(
            source="debian",
            reference=self._recipe.suite,
            tool=tool,
            recipe=self._recipe.digest,
            packages=packages(root),
        )

    def _mirrors(self, work: Path) -> list[str]:
        if self._sources is not None:
            return [str(self._sources.resolve())]
        found = tuple(host_sources(self._apt, self._recipe.suite))
        paths = []
        for number, (suffix, text) in enumerate(found):
            path = work / f"host-{number}{suffix}"
            path.write_text(text)
            paths.append(str(path))
        return paths

    def _pins(self, work: Path) -> Path | None:
        if not self._lock.packages:
            return None
        path = work / PINS
        path.write_text(
            "\n\n".join(
                f"Package: {name}\nPin: version {version}\nPin-Priority: 1001"
                for name, version in self._lock.packages.items()
            )
            + "\n"
        )
        return path

    def _run(
        self, root: Path, mirrors: Sequence[str], pins: Path | None, progress: Progress
    ) -> None:
        argv = ["mmdebstrap", "--mode=root", "--format=directory", "--variant=minbase"]
        argv += ["--aptopt=Acquire::Languages none"]
        argv += [f"--aptopt={line}" for line in _host_settings()]
        argv += [f"--dpkgopt={line}" for line in PRUNED]
        argv += [f"--include={','.join(self._recipe.packages)}"]
        if pins is not None:
            copy = f'cp {shlex.quote(str(pins))} "$1/etc/apt/preferences.d/{PINS}"'
            argv += [f"--setup-hook={copy}"]
        _stream(
            [*argv, self._recipe.suite, str(root), *mirrors],
            epoch_s=self.latest_s,
            progress=progress,
        )


class _Unsolvable(Exception):
    """Apt cannot install the locked versions together."""


def check_tool() -> str:
    """Return mmdebstrap's name and version.

    Raises:
        MissingRequirement: If it, or the privilege to run it, is not there.
    """
    if shutil.which("mmdebstrap") is None:
        raise MissingRequirement(
            "mmdebstrap is not installed.",
            remedy="apt-get install mmdebstrap, or build from another source with "
            "`rlvr images build --from`, or `rlvr images import` a finished image.",
        )
    if os.geteuid() != 0:
        raise MissingRequirement(
            "Building an image needs root: its files have many owners.",
            remedy="run as root, or `rlvr images import` a finished image.",
        )
    answer = subprocess.run(
        ["mmdebstrap", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return answer.stdout.strip()


def _stream(argv: Sequence[str], *, epoch_s: int, progress: Progress) -> None:
    environment = dict(os.environ) | {"LC_ALL": "C", "SOURCE_DATE_EPOCH": str(epoch_s)}
    last: deque[str] = deque(maxlen=KEPT_LINES)
    with subprocess.Popen(
        ["timeout", "--kill-after=10", str(TIMEOUT_S), *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
    ) as process:
        for line in process.stderr or ():
            last.append(line.rstrip())
            if line.startswith("I: ") and "hook" not in line:
                progress(line[3:].strip())
    if process.returncode == 0:
        return
    said = "\n".join(last)
    if any(mark in said for mark in UNSOLVABLE):
        raise _Unsolvable
    raise SnapshotError(
        f"mmdebstrap failed with status {process.returncode}:\n{said}\n",
        remedy="check that `apt-get update` works on this machine and that the disk "
        "has 2 GB free; --sources FILE takes another apt sources file.",
    )


def host_sources(apt: Path, suite: str) -> Iterator[tuple[str, str]]:
    """Yield suffix and text of the host's apt sources for a release.

    Only the release's own archive counts: its pockets, with the component ``main``.
    Where the host has none (it runs another distribution), mmdebstrap's own default
    is used.
    """
    pockets = {suite + pocket for pocket in POCKETS}
    lists = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))]
    lines = [
        line
        for path in lists
        if path.is_file()
        for line in path.read_text().splitlines()
        if _one_line_fits(line, pockets)
    ]
    if lines:
        yield ".list", "\n".join(lines) + "\n"
    stanzas = [
        stanza
        for path in sorted((apt / "sources.list.d").glob("*.sources"))
        for stanza in re.split(r"\n\s*\n", path.read_text())
        if _stanza_fits(stanza, pockets)
    ]
    if stanzas:
        yield ".sources", "\n\n".join(stanzas) + "\n"


def _one_line_fits(line: str, pockets: set[str]) -> bool:
    words = re.sub(r"\[.*?\]", "", line.partition("#")[0]).split()
    return (
        len(words) > 3
        and words[0] == "deb"
        and words[2] in pockets
        and "main" in words[3:]
    )


def _stanza_fits(stanza: str, pockets: set[str]) -> bool:
    lines = [line for line in stanza.splitlines() if not line.startswith("#")]
    rows = {
        key.strip().lower(): value.split()
        for key, _, value in (line.partition(":") for line in lines)
    }
    suites = rows.get("suites", [])
    return (
        "deb" in rows.get("types", [])
        and bool(suites)
        and set(suites) <= pockets
        and "main" in rows.get("components", [])
        and rows.get("enabled", ["yes"])[0].lower() != "no"
    )


def _host_settings() -> list[str]:
    answer = subprocess.run(
        ["apt-config", "dump"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return [line for line in answer.stdout.splitlines() if HOST_SETTINGS.match(line)]


def compile_python(root: Path, *, latest_s: int) -> None:
    """Compile the image's own Python files anew, so that they fit clamped times.

    A compiled file records its source's time: without this, no user but root could
    ever replace the stale ones, and each start of Python would compile again.
    """
    for path in root.rglob("*.pyc"):
        path.unlink()
    clamp_times(root, latest_s)
    folders = [
        f"/{path.relative_to(root)}" for path in sorted(root.glob("usr/lib/python3*"))
    ]
    if not folders or not (root / "usr/bin/python3").exists():
        return
    subprocess.run(
        ["chroot", str(root), *COMPILE, *folders],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={"PYTHONHASHSEED": "0", "PATH": "/usr/sbin:/usr/bin", "LC_ALL": "C.UTF-8"},
        timeout=300,
        check=False,
    )
