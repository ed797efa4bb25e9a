import json
import os
from pathlib import Path

import pytest

HIDDEN = json.loads(Path("/verifier/hidden.json").read_text())
ENDINGS = (f".{HIDDEN['extension']}".encode(), b".png")
ROOTS = [("plain", "out"), ("-s pa\nce*", "to '\"there")]


def build(top, tree):
    os.makedirs(top)
    for name, content in tree.items():
        path = os.path.join(top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as out:
            out.write(content)
    open_up(top)


def open_up(top):
    for place, folders, files in os.walk(top):
        os.chmod(place, 0o777)
        for name in files:
            if not os.path.islink(os.path.join(place, name)):
                os.chmod(os.path.join(place, name), 0o644)


def chosen(tree):
    """Names that are to be copied, in the order that decides ties."""
    names = [name for name in tree if name.lower().endswith(ENDINGS)]
    return sorted(name for name in names if not any(part.startswith(b".") for part in name.split(b"/")))


def place_of(name):
    base = name.split(b"/")[-1]
    first = base[:1].upper()
    return (first if first.isalpha() else b"_"), base


def wanted(tree, taken):
    """Where each picture goes, given what is in the target already."""
    result, used = dict(taken), set(taken)
    everyone = {b"/".join(place_of(name)) for name in chosen(tree)}
    for name in chosen(tree):
        letter, base = place_of(name)
        stem, _, ending = base.rpartition(b".")
        target, number = letter + b"/" + base, 2
        while target in used or (number > 2 and target in everyone):
            target = letter + b"/" + stem + b"~%d." % number + ending
            number += 1
        used.add(target)
        result[target] = tree[name]
    return result


def found(top):
    result = {}
    for place, _, files in os.walk(os.fsencode(top)):
        for name in files:
            path = os.path.join(place, name)
            with open(path, "rb") as source:
                result[os.path.relpath(path, os.fsencode(top))] = source.read().decode()
    return result


@pytest.mark.parametrize("root", ROOTS, ids=["tame", "wild"])
@pytest.mark.parametrize("number", range(len(HIDDEN["trees"])))
def test_pictures_are_gathered(candidate, tmp_path, number, root):
    tree = {bytes.fromhex(name): content for name, content in HIDDEN["trees"][number].items()}
    source, target = root
    build(os.fsencode(tmp_path / source), tree)
    os.chmod(tmp_path, 0o777)

    done = candidate.run(["bash", "/app/collect.sh", f"./{source}" if number % 2 else source, target], cwd=tmp_path, timeout_s=9)

    assert done.status == 0, done.stderr[-400:]
    assert done.stdout.strip() == f"copied {len(chosen(tree))}"
    assert found(tmp_path / target) == wanted(tree, {})
    assert found(tmp_path / source) == {name: content for name, content in tree.items()}


def test_nothing_is_overwritten(candidate, tmp_path):
    ending = HIDDEN["extension"].encode()
    tree = {b"x/cat." + ending: "new", b"y/cat." + ending: "newer", b"cat~3." + ending: "own name"}
    there = {b"C/cat." + ending: "old", b"_/keep.me": "mine"}
    build(os.fsencode(tmp_path / "from"), tree)
    build(os.fsencode(tmp_path / "to"), there)
    os.chmod(tmp_path, 0o777)

    done = candidate.run(["bash", "/app/collect.sh", "from", "to"], cwd=tmp_path, timeout_s=9)

    assert done.status == 0
    assert found(tmp_path / "to") == wanted(tree, there)


def test_links_are_left_out(candidate, tmp_path):
    ending = HIDDEN["extension"]
    build(os.fsencode(tmp_path / "from"), {f"real.{ending}".encode(): "real", f"sub/other.{ending}".encode(): "other"})
    (tmp_path / "from" / f"link.{ending}").symlink_to(f"real.{ending}")
    (tmp_path / "from" / "loop").symlink_to("sub")
    os.mkfifo(tmp_path / "from" / f"pipe.{ending}")
    os.mkdir(tmp_path / "from" / f"folder.{ending}")
    os.chmod(tmp_path, 0o777)

    done = candidate.run(["bash", "/app/collect.sh", "from", "to"], cwd=tmp_path, timeout_s=9)

    assert (done.status, done.stdout.strip()) == (0, "copied 2")
    assert sorted(found(tmp_path / "to")) == [f"O/other.{ending}".encode(), f"R/real.{ending}".encode()]


@pytest.mark.parametrize("arguments", [[], ["from"], ["from", "to", "more"], ["nowhere", "to"], ["", ""]], ids=len)
def test_a_wrong_call_is_refused(candidate, tmp_path, arguments):
    (tmp_path / "from").mkdir()
    os.chmod(tmp_path, 0o777)

    done = candidate.run(["bash", "/app/collect.sh", *arguments], cwd=tmp_path, timeout_s=9)

    assert (done.status, done.stdout) == (HIDDEN["status"], "")
