import json
from pathlib import Path

import pytest

CASES = json.loads(Path("/verifier/hidden.json").read_text())["cases"]


def refuse(word):
    raise ValueError(f"{word} is no JSON")


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_recording_is_decoded(candidate, tmp_path, number):
    case = CASES[number]
    source = tmp_path / "recording.bin"
    source.write_bytes(bytes.fromhex(case["hex"]))

    done = candidate.run(["python3", "/app/decode.py", str(source)], timeout_s=9)

    assert done.status == 0, done.stderr[-400:]
    rows = [json.loads(line, parse_constant=refuse) for line in done.stdout.split("\n") if line.strip()]
    assert len(rows) == len(case["rows"])
    for given, wanted in zip(rows, case["rows"]):
        assert given == wanted
        assert type(given.get("value")) is type(wanted.get("value"))
