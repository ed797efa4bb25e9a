from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.cli import main
from rlvr_envs.records import Places
from rlvr_envs.snapshots.recipes import read_lock
from rlvr_envs.snapshots.store import ImageStore
from tests.snapshots.trees import mini_image, mini_root, needs_root

pytestmark = needs_root
Rlvr = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(store=tmp_path / "store")


@pytest.fixture
def rlvr(places: Places, capfd: pytest.CaptureFixture[str]) -> Rlvr:
    """Run `rlvr images ... --json`: exit status, objects, standard error."""

    def run(*words: str) -> tuple[int, list[dict[str, Any]], str]:
        status = main(["images", *words, "--json", "--store", str(places.store)])
        out, err = capfd.readouterr()
        return status, [json.loads(line) for line in out.splitlines()], err

    return run


def test_the_list_shows_what_is_stored_and_what_could_be(
    rlvr: Rlvr, places: Places, tmp_path: Path
) -> None:
    image = mini_image(places, tmp_path)

    status, rows, _ = rlvr("list")

    assert status == 0
    assert [(row["image"], row["status"]) for row in rows] == [
        ("mini", "stored"),
        ("base", "missing"),
        ("science", "missing"),
    ]
    assert rows[0]["digest"] == image.digest


def test_an_image_is_built_from_a_folder(
    rlvr: Rlvr, places: Places, tmp_path: Path
) -> None:
    folder = mini_root(tmp_path / "folder")

    status, rows, err = rlvr("build", "mine", "--from", f"folder:{folder}")

    assert (status, rows[0]["status"], rows[0]["source"]) == (0, "built", "folder")
    assert "Copying" in err
    assert ImageStore(places).verify("mine").digest == rows[0]["digest"]


def test_verify_fails_for_a_changed_image_only(
    rlvr: Rlvr, places: Places, tmp_path: Path
) -> None:
    good, bad = (mini_image(places, tmp_path, name=name) for name in ("good", "other"))
    assert good.digest == bad.digest
    folder = mini_root(tmp_path / "third")
    (folder / "etc/x").touch()
    rlvr("build", "bad", "--from", f"folder:{folder}")
    root = ImageStore(places).layer("bad").path
    (root / "etc/x").write_text("changed")

    status, rows, err = rlvr("verify")

    assert status == 1
    words = {row["image"]: row["status"] for row in rows}
    assert words == {"bad": "failed", "good": "ok", "other": "ok"}
    assert "--force bad" in err
    assert rlvr("verify", "good")[0] == 0


def test_an_image_is_carried_and_its_versions_locked(
    rlvr: Rlvr, places: Places, tmp_path: Path
) -> None:
    image = mini_image(places, tmp_path)
    file, lock = tmp_path / "mini.tar", tmp_path / "lock.yaml"

    exported = rlvr("export", "mini", str(file))
    imported = rlvr("import", str(file), "--name", "again")
    locked = rlvr("lock", "mini", "--output", str(lock))

    assert [answer[0] for answer in (exported, imported, locked)] == [0, 0, 0]
    assert imported[1][0]["digest"] == image.digest
    assert dict(read_lock("mini", lock).packages) == dict(image.provenance.packages)


def test_prune_says_what_went(rlvr: Rlvr) -> None:
    status, rows, _ = rlvr("prune")

    assert (status, rows) == (
        0,
        [{"images": 0, "layers": 0, "unfinished": 0, "content_bytes": 0}],
    )


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("build", "nosuch"), "choose one of base, science"),
        (("build", "a", "b", "--from", "folder:/x"), "exactly one NAME"),
        (("build", "a", "--from", "zip:/x"), "folder:DIR"),
        (("build", "A/b", "--from", "folder:/"), "lower-case"),
        (("import", "/nonexistent/file"), "no file"),
        (("lock", "gone"), "rlvr images build gone"),
        (("export", "gone", "/nonexistent/file"), "rlvr images build gone"),
    ],
)
def test_a_wrong_call_ends_with_status_two_and_the_remedy(
    rlvr: Rlvr, words: tuple[str, ...], remedy: str
) -> None:
    status, rows, err = rlvr(*words)

    assert (status, rows) == (2, [])
    assert remedy in err


def test_people_see_a_table(
    places: Places, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mini_image(places, tmp_path)

    assert main(["images", "list", "--store", str(places.store)]) == 0
    assert "mini" in capfd.readouterr().out
