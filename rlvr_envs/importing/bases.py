"""Which of our images stands in for a foreign base image, so that no pull is needed."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass

from rlvr_envs.importing.needs import Needs
from rlvr_envs.snapshots.recipes import recipes


@dataclass(frozen=True, slots=True)
class BaseRow:
    """A pattern of image references and the image that stands in for them."""

    pattern: str
    image: str


BASES = (
    BaseRow("ghcr.io/laude-institute/t-bench/ubuntu-*:*", "science"),
    BaseRow("ghcr.io/laude-institute/t-bench/python-*:*", "science"),
    BaseRow("ubuntu", "science"),
    BaseRow("ubuntu:*", "science"),
    BaseRow("debian", "science"),
    BaseRow("debian:*", "science"),
    BaseRow("python", "science"),
    BaseRow("python:3*", "science"),
    BaseRow("docker.io/*ubuntu*", "science"),
    BaseRow("docker.io/*debian*", "science"),
    BaseRow("docker.io/*python:3*", "science"),
)
"""The first row that fits holds."""

ESSENTIAL = frozenset(
    [
        "apt",
        "base-files",
        "base-passwd",
        "bash",
        "bsdutils",
        "coreutils",
        "dash",
        "debconf",
        "debianutils",
        "diffutils",
        "dpkg",
        "findutils",
        "gpgv",
        "grep",
        "gzip",
        "hostname",
        "init-system-helpers",
        "libc-bin",
        "libc6",
        "login",
        "mount",
        "ncurses-base",
        "ncurses-bin",
        "passwd",
        "perl",
        "perl-base",
        "sed",
        "sysvinit-utils",
        "tar",
        "util-linux",
        "zlib1g",
    ]
)
"""Packages of every Debian or Ubuntu system."""

PIP_BRINGS = frozenset(
    [
        "python3",
        "python3-pip",
        "python3-setuptools",
        "python3-wheel",
        "python3-dev",
        "build-essential",
        "gcc",
        "g++",
        "make",
        "libc6-dev",
        "libc-dev",
        "binutils",
        "dpkg-dev",
        "patch",
        "xz-utils",
        "bzip2",
    ]
)
"""What ``apt-get install python3-pip`` brings on Ubuntu, recommended ones included."""

LIBRARIES = frozenset({"pytest", "pandas", "scipy", "numpy"})
"""What the prepared image has beside the base system."""

LIBRARIES_BRING = frozenset(
    [
        "iniconfig",
        "packaging",
        "pluggy",
        "pygments",
        "python-dateutil",
        "pytz",
        "six",
        "tzdata",
        "pip",
        "setuptools",
        "wheel",
    ]
)
"""What comes with them, or with pip."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One reading of "the base system with pytest, pandas, scipy and numpy"."""

    name: str
    apt: frozenset[str]
    pip: frozenset[str]

    def holds(self, needs: Needs) -> bool:
        """Whether a build needs no more than this."""
        return needs.within(apt=self.apt, pip=self.pip)


_PYTHON = frozenset({"python3", "python3-pip"})

MEASURES = (
    Measure("python_only", _PYTHON, LIBRARIES),
    Measure("essential", _PYTHON | ESSENTIAL, LIBRARIES),
    Measure("base_system", ESSENTIAL | PIP_BRINGS, LIBRARIES | LIBRARIES_BRING),
)
"""From the narrowest to the widest; the last is the one that the report means."""

STAND_INS = frozenset({"python3-pip", "python3-setuptools", "python3-wheel"})
"""Packages whose place the build's own shims take: they check and install nothing."""


def stand_in(base: str) -> str | None:
    """Return the name of our image for a foreign reference; None if there is none."""
    reference = base.split("@", 1)[0].lower()
    for row in BASES:
        if fnmatch.fnmatchcase(reference, row.pattern):
            return row.image
    return None


def provided(image: str) -> Mapping[str, frozenset[str]]:
    """Return what one of our images has, as ``apt`` and ``pip`` names."""
    packages = frozenset(recipes()[image].packages)
    prefix = "python3-"
    python = {name.removeprefix(prefix) for name in packages if name.startswith(prefix)}
    return {
        "apt": packages | ESSENTIAL | STAND_INS,
        "pip": frozenset(python) | (LIBRARIES_BRING if python else frozenset()),
    }


def untestable(needs: frozenset[str], image: str) -> tuple[str, ...]:
    """Return the Python packages that tests need and one of our images lacks."""
    return tuple(sorted(needs - provided(image)["pip"]))


def buildable(needs: Needs, image: str) -> bool:
    """Whether the direct, offline route can build this on one of our images."""
    have = provided(image)
    return needs.within(apt=have["apt"], pip=have["pip"])
