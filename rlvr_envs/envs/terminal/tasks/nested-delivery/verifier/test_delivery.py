import hashlib
import json
import os
from pathlib import Path

HIDDEN = json.loads(Path("/verifier/hidden.json").read_text())


def walk(candidate):
    top = Path(candidate.path("/app/restored"))
    for place, folders, files in os.walk(top):
        for name in folders + files:
            path = Path(place) / name
            yield path.relative_to(top).as_posix(), path


def test_exactly_the_listed_files_are_there(candidate):
    files = {name for name, path in walk(candidate) if not path.is_dir() or path.is_symlink()}
    assert files == set(HIDDEN["sums"])


def test_there_is_no_empty_folder(candidate):
    wanted = {parent.as_posix() for name in HIDDEN["sums"] for parent in Path(name).parents} - {"."}
    folders = {name for name, path in walk(candidate) if path.is_dir() and not path.is_symlink()}
    assert folders == wanted


def test_every_checksum_is_right(candidate):
    for name, digest in HIDDEN["sums"].items():
        data = candidate.read(f"/app/restored/{name}")
        assert hashlib.sha256(data).hexdigest() == digest, name


def test_refused_members_are_named(candidate):
    assert candidate.read_text("/app/refused.txt").splitlines() == HIDDEN["refused"]


def test_no_trap_sprang(candidate):
    for name in ("/app/absolute.txt", "/app/up.txt", "/app/outside.txt", "/app/x.txt"):
        assert not candidate.exists(name), name
