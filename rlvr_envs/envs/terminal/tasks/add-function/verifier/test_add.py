import json
from pathlib import Path

import pytest

HIDDEN = json.loads(Path("/verifier/hidden.json").read_text())


@pytest.mark.parametrize("pair", range(len(HIDDEN["numbers"])))
def test_adds_whole_numbers(candidate, pair):
    a, b = HIDDEN["numbers"][pair]

    result = candidate.call("sol", "add", a, b)

    assert type(result) is int
    assert result == a + b


@pytest.mark.parametrize("row", range(len(HIDDEN["texts"])))
def test_adds_grouped_text(candidate, row):
    a, b, total = HIDDEN["texts"][row]

    assert candidate.call("sol", "add", a, b) == total


@pytest.mark.parametrize("word", HIDDEN["bad"])
def test_other_text_is_a_value_error(candidate, word):
    with pytest.raises(candidate.Error) as caught:
        candidate.call("sol", "add", word, 1)

    assert caught.value.type == "ValueError"
