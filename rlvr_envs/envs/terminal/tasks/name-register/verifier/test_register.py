import json
from pathlib import Path

import pytest

HIDDEN = json.loads(Path("/verifier/hidden.json").read_text())
LOCALES = [{}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]


def test_the_table_is_right(candidate):
    assert candidate.read("/app/register.tsv").decode() == HIDDEN["table"]


@pytest.mark.parametrize("env", LOCALES, ids=["usual", "ascii"])
@pytest.mark.parametrize("number", range(len(HIDDEN["cases"])))
def test_unseen_names_are_counted(candidate, tmp_path, number, env):
    case = HIDDEN["cases"][number]
    source = tmp_path / "names"
    source.write_bytes(bytes.fromhex(case["hex"]))

    done = candidate.run(["python3", "/app/register.py", str(source)], env=env, timeout_s=8)

    assert done.status == 0, done.stderr[-400:]
    assert done.stdout == case["table"]
    assert ("skipped" in done.stderr) == bool(case["skipped"])
    assert not case["skipped"] or f"skipped {case['skipped']}" in done.stderr.splitlines()
