from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rlvr_envs.verifiers import opening
from tests.verifiers.builders import lay

LOCATE: list[Callable[[Path, str], int]] = [opening.locate, opening.walk_open]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lay(tmp_path, {"secret": "host"})
    return lay(
        tmp_path / "root",
        {
            "app/a.txt": "a",
            "app/beside": "-> a.txt",
            "app/absolute": "-> /app/a.txt",
            "app/up": "-> ../../../../app/a.txt",
            "app/out": f"-> {tmp_path}/secret",
            "app/loop": "-> loop",
            "app/magic": "-> /proc/self/root/etc/passwd",
            "dir": "-> app",
        },
    )


@pytest.mark.parametrize("locate", LOCATE)
@pytest.mark.parametrize(
    "path", ["/app/a.txt", "/app/beside", "/app/absolute", "/app/up", "/dir/a.txt"]
)
def test_links_are_resolved_inside_the_root(
    root: Path, path: str, locate: Callable[[Path, str], int]
) -> None:
    fd = locate(root, path)

    try:
        assert opening.real_path(root, fd) == "/app/a.txt"
    finally:
        os.close(fd)


@pytest.mark.parametrize("locate", LOCATE)
@pytest.mark.parametrize("path", ["/app/out", "/app/loop", "/app/magic", "/app/none"])
def test_nothing_outside_the_root_is_reached(
    root: Path, path: str, locate: Callable[[Path, str], int]
) -> None:
    with pytest.raises(OSError, match=r"."):
        locate(root, path)


def test_a_fifo_is_refused_without_blocking(root: Path) -> None:
    os.mkfifo(root / "app/pipe")

    with pytest.raises(opening.Refused) as caught:
        opening.read(root, "/app/pipe", limit_bytes=10)

    assert caught.value.special


def test_a_file_above_its_cap_is_refused(root: Path) -> None:
    with (root / "app/sparse").open("wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(opening.Refused, match="allowed"):
        opening.read(root, "/app/sparse", limit_bytes=1 << 20)


def test_a_missing_file_says_so(root: Path) -> None:
    with pytest.raises(opening.Refused) as caught:
        opening.read(root, "/app/none", limit_bytes=10)

    assert caught.value.missing
