from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rlvr_envs.errors import CallerError, MissingRequirement
from rlvr_envs.records import Places
from rlvr_envs.snapshots.finishing import packages, retime_python
from rlvr_envs.snapshots.images import check_drift, ensure_image
from rlvr_envs.snapshots.recipes import (
    ImageLock,
    drift,
    read_lock,
    recipe,
    recipes,
    write_lock,
)
from rlvr_envs.snapshots.sources.base import Provenance
from rlvr_envs.snapshots.sources.debian import check_tool, host_sources
from rlvr_envs.snapshots.store import ImageStore, StoredImage


def apt(work: Path, *, listed: str = "", stanzas: str = "") -> Path:
    (work / "sources.list.d").mkdir()
    (work / "sources.list").write_text(listed)
    (work / "sources.list.d/debian.sources").write_text(stanzas)
    return work


def test_only_the_releases_own_archive_is_taken_from_the_host(tmp_path: Path) -> None:
    listed = """
# deb http://mirror.example/old bookworm main
deb [signed-by=/k.gpg arch=amd64] http://mirror.example/debian bookworm main contrib
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/debian trixie main
deb http://vendor.example/tool bookworm stable
"""
    stanzas = """
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main

# a vendor's
Types: deb
URIs: http://vendor.example
Suites: nodistro
Components: main

Enabled: no
Types: deb
URIs: http://mirror.example/other
Suites: bookworm
Components: main

Types: deb
URIs: http://mirror.example/backports
Suites: bookworm bookworm-backports
Components: main
"""
    found = dict(
        host_sources(apt(tmp_path, listed=listed, stanzas=stanzas), "bookworm")
    )

    assert found[".list"].splitlines() == [listed.splitlines()[2]]
    assert found[".sources"].strip() == stanzas.split("\n\n")[0].strip()


def test_a_host_of_another_release_gives_no_sources(tmp_path: Path) -> None:
    listed = "deb http://mirror.example/ubuntu noble main\n"

    assert list(host_sources(apt(tmp_path, listed=listed), "bookworm")) == []


def test_the_science_recipe_holds_all_of_base() -> None:
    base, science = recipe("base"), recipe("science")

    assert set(base.packages) < set(science.packages)
    assert science.suite == base.suite
    assert science.digest != base.digest
    assert set(recipes()) == {"base", "science"}


def test_an_unknown_recipe_names_those_there_are() -> None:
    with pytest.raises(CallerError, match="base, science"):
        recipe("nosuch")


@pytest.mark.parametrize("name", ["base", "science"])
def test_the_lock_that_is_shipped_fits_its_recipe(name: str) -> None:
    lock, wanted = read_lock(name), recipe(name)

    assert lock.recipe == wanted.digest
    assert set(wanted.packages) <= set(lock.packages)


def test_a_lock_survives_writing_and_leaves_others(tmp_path: Path) -> None:
    file = tmp_path / "lock.yaml"
    one, two = ImageLock("sha256:1", {"a": "1:2"}), ImageLock("sha256:2", {"b": "1.0"})

    write_lock("one", one, file)
    write_lock("two", two, file)

    assert (read_lock("one", file), read_lock("two", file)) == (one, two)
    assert read_lock("three", file) == ImageLock()


def test_drift_lists_each_difference_from_the_lock() -> None:
    lock = ImageLock("", {"same": "1", "newer": "1", "gone": "1"})

    assert drift(lock, {"same": "1", "newer": "2", "added": "1"}) == (
        "added: locked absent, installed 1",
        "gone: locked 1, installed absent",
        "newer: locked 1, installed 2",
    )


def test_only_images_of_a_recipe_can_drift() -> None:
    locked = read_lock("base").packages
    for source, count in (("debian", 0), ("docker", 0)):
        made = Provenance(source, "x", "y", packages=locked)
        assert len(check_drift(StoredImage("base", "sha256:0", 1, 1, made))) == count
    made = Provenance("debian", "x", "y", packages={**locked, "bash": "0"})
    assert len(check_drift(StoredImage("base", "sha256:0", 1, 1, made))) == 1


def test_without_mmdebstrap_the_package_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(MissingRequirement, match="apt-get install mmdebstrap"):
        check_tool()


def test_a_missing_image_without_recipe_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="no image recipe"):
        ensure_image("nosuch", Places(store=tmp_path))


def test_installed_packages_are_read_from_the_status_file(tmp_path: Path) -> None:
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(
        "Package: a\nStatus: install ok installed\nVersion: 1:2-3\n"
        "Description: x\n Version: 9\n\n"
        "Package: b\nStatus: deinstall ok config-files\nVersion: 1\n"
    )

    assert packages(tmp_path) == {"a": "1:2-3"}
    assert packages(tmp_path / "var") == {}


def test_compiled_files_fit_their_sources_after_times_were_moved(
    tmp_path: Path,
) -> None:
    source = tmp_path / "module.py"
    source.write_text("x = 1\n")
    python = shutil.which("python3")
    assert python is not None
    compile_it = [python, "-m", "compileall", "-q", str(tmp_path)]
    subprocess.run(compile_it, check=True)
    os.utime(source, (1000, 1000))

    retime_python(tmp_path)

    run = [python, "-v", "-c", "import module"]
    seen = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "module.py" in seen.stderr
    assert "wrote" not in seen.stderr
    assert "bytecode is stale" not in seen.stderr


@pytest.fixture(scope="module")
def base() -> Path:
    store = ImageStore()
    if os.geteuid() != 0 or not store.has("base"):
        pytest.skip("the base image is not built: rlvr images build base")
    return store.layer("base").path


def test_the_base_image_has_what_agents_expect(base: Path) -> None:
    expected = (
        "bash python3 pytest-3 git make gcc curl ps kill pkill killall ping ip nc sqlite3 "
        "openssl less file xz bzip2 gzip zip unzip tar patch diff jq bc vi nano tree "
        "awk sed grep find perl timeout"
    )
    missing = [
        name
        for name in expected.split()
        if not any(
            os.path.lexists(base / folder / name) for folder in ("usr/bin", "usr/sbin")
        )
    ]

    assert missing == []
    assert not (base / "usr/share/man/man1").exists()


def test_nothing_in_the_base_image_is_younger_than_its_recipe_says(base: Path) -> None:
    latest = recipe("base").latest_s
    late = [path for path in base.rglob("*") if path.lstat().st_mtime > latest]

    assert late == []


def test_the_base_image_holds_nothing_of_the_host_that_built_it(base: Path) -> None:
    assert not (base / "etc/apt/sources.list").exists()
    assert list((base / "etc/apt/sources.list.d").iterdir()) == []
    for folder in ("var/log", "var/lib/apt/lists", "var/cache/apt", "tmp"):
        assert list((base / folder).iterdir()) == []
    assert (base / "etc/machine-id").read_text() == ""
