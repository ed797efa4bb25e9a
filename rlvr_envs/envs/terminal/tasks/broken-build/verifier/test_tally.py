import json
import random
import re
import shutil
import statistics
from pathlib import Path

import pytest

HIDDEN = json.loads(Path("/verifier/hidden.json").read_text())
PLACES = HIDDEN["digits"]


@pytest.fixture
def tally(candidate, tmp_path):
    """The executable, built from the sources alone, without what was left of a build."""
    source = candidate.path("/app/tally")
    work = tmp_path / "tally"
    shutil.copytree(source, work, ignore=shutil.ignore_patterns("*.o", "*.a", "*.so", "tally"))
    work.chmod(0o777)
    for path in work.rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o666)
    done = candidate.run(["make", "clean"], cwd=work, timeout_s=10)
    assert done.status == 0, done.stderr[-800:]
    done = candidate.run(["make"], cwd=work, timeout_s=25)
    assert done.status == 0, done.stderr[-800:]
    assert (work / "tally").read_bytes()[:4] == b"\x7fELF", "make built no program from C"
    judged = tmp_path / "judged"
    judged.mkdir()
    judged.chmod(0o777)
    flags = HIDDEN["flags"].partition("=")[2].split()
    sources = [str(path) for path in sorted(work.glob("*.c"))]
    argv = ["gcc", *flags, "-o", str(judged / "tally"), *sources, "-lm"]
    done = candidate.run(argv, cwd=work, timeout_s=20)
    assert done.status == 0, done.stderr[-800:]
    (work / "tally").unlink()
    shutil.copy(judged / "tally", work / "tally")
    (work / "tally").chmod(0o755)
    return work / "tally"


def wanted(numbers):
    rows = [statistics.fmean(numbers), statistics.median(numbers), statistics.pstdev(numbers)]
    return [len(numbers), *rows]


def given(stdout):
    match = re.fullmatch(r"count (\d+)\nmean (\S+)\nmedian (\S+)\ndeviation (\S+)\n", stdout)
    assert match, stdout[:300]
    assert all(len(value.partition(".")[2]) == PLACES for value in match.groups()[1:])
    return [float(value) for value in match.groups()]


def test_it_builds_and_adds_up(candidate, tally):
    source = random.Random(HIDDEN["many_seed"])
    many = [source.randrange(-(10**6), 10**6) / 100 for _ in range(60_000)]
    for numbers in [*HIDDEN["cases"], many]:
        done = candidate.run([str(tally)], stdin=" ".join(map(str, numbers)), cwd=tally.parent, timeout_s=5)

        assert done.status == 0
        assert given(done.stdout) == pytest.approx(wanted(numbers), abs=0.6 * 10**-PLACES, rel=1e-9)


def test_a_bad_word_is_named(candidate, tally):
    for word in HIDDEN["bad"]:
        done = candidate.run([str(tally)], stdin=f"1 2\n{word} 3\n", cwd=tally.parent, timeout_s=5)

        assert (done.status, done.stdout) == (2, "")
        assert done.stderr == f"tally: bad number: {word}\n"


def test_no_numbers_is_an_error(candidate, tally):
    done = candidate.run([str(tally)], stdin=" \n", cwd=tally.parent, timeout_s=5)

    assert (done.status, done.stdout, done.stderr) == (1, "", "tally: no numbers\n")


def test_the_flags_are_kept_and_nothing_is_silenced(candidate):
    makefile = candidate.read_text("/app/tally/Makefile")
    assert HIDDEN["flags"] in makefile.splitlines()
    assert not re.search(r"-w\b|-Wno-|-Wno\b|-isystem|-fpermissive", makefile)

    for name in ("main.c", "stats.c", "parse.c", "stats.h", "parse.h"):
        assert "pragma" not in candidate.read_text(f"/app/tally/{name}").lower()


def test_clean_leaves_sources_only(candidate, tally):
    candidate.run(["make", "clean"], cwd=tally.parent, timeout_s=10)

    left = {path.name for path in tally.parent.iterdir()}
    assert "tally" not in left
    assert not any(name.endswith(".o") for name in left)
    assert {"main.c", "stats.c", "parse.c"} <= left
