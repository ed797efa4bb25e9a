import json
from pathlib import Path

import pytest

HIDDEN = json.loads(Path("/verifier/hidden.json").read_text())


@pytest.mark.parametrize("case", HIDDEN["cases"], ids=lambda case: case["name"])
def test_prints_the_sum_of_an_unseen_file(candidate, tmp_path, case):
    source = tmp_path / "numbers.txt"
    source.write_text(case["content"])

    done = candidate.run(["python3", "/app/sum.py", str(source)], timeout_s=8)

    assert done.status == 0, done.stderr[-500:]
    assert done.stdout.strip() == case["sum"]


def test_prints_the_sum_of_the_data(candidate, tmp_path):
    source = tmp_path / "n.txt"
    source.write_text(HIDDEN["data"])

    done = candidate.run(["python3", "/app/sum.py", str(source)], timeout_s=8)

    assert (done.status, done.stdout.strip()) == (0, HIDDEN["answer"])
