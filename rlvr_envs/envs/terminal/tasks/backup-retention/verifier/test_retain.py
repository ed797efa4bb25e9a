import json
from pathlib import Path

import pytest

HIDDEN = json.loads(Path("/verifier/hidden.json").read_text())


def test_the_list_of_today_is_right(candidate):
    assert candidate.read_text("/app/delete.txt").split() == HIDDEN["today"]


@pytest.mark.parametrize("case", HIDDEN["cases"], ids=lambda case: case["date"])
def test_other_days_are_right(candidate, case):
    names = "".join(f"{name}\n" for name in case["names"])

    done = candidate.run(["python3", "/app/retain.py", case["date"]], stdin=names, timeout_s=8)

    assert done.status == 0, done.stderr[-500:]
    assert done.stdout.split() == case["deletable"]
