"""Big inputs are made on the candidate's side from a seed, by a formula that is easy to repeat here."""

import json
from collections import Counter
from pathlib import Path

import pytest

HIDDEN = json.loads(Path("/verifier/hidden.json").read_text())
SIZE, SEED, TOP = HIDDEN["size"], HIDDEN["seed"], HIDDEN["top"]
WIDE = f"[((i * {SEED}) % 1000003 * 999983, (i * {SEED}) % 1000003 * 999983 + 1 + i % 9973 * 40009) for i in range({SIZE})]"
APART = f"[(4 * ((i * 7919) % {SIZE}), 4 * ((i * 7919) % {SIZE}) + 1 + i % 3) for i in range({SIZE})]"
NAMES = f"[str((i * i * {SEED} + i) % 70001) for i in range({SIZE})]"
SCORES = f"[(i * {SEED}) % 15485863 for i in range({SIZE})]"


def pairs_of(value):
    return [tuple(item) for item in value]


@pytest.mark.parametrize("case", HIDDEN["small"], ids=lambda case: str(len(case["visits"])))
def test_small_results_are_as_before(candidate, case):
    visits = pairs_of(case["visits"])
    pairs = [((a, b), count) for (a, b), count in case["pairs"]]

    assert candidate.call("busy", "peak", visits) == tuple(case["peak"])
    assert candidate.call("busy", "gaps", visits, case["first"], case["last"]) == pairs_of(case["gaps"])
    assert candidate.call("busy", "busiest_pairs", case["names"]) == pairs
    assert candidate.call("busy", "rank", case["scores"]) == case["rank"]


def test_arguments_are_left_alone(candidate):
    case = HIDDEN["small"][-1]
    names = {"visits": pairs_of(case["visits"]), "names": case["names"], "scores": case["scores"]}
    calls = "busy.peak(visits), busy.gaps(visits, 0, 50), busy.busiest_pairs(names), busy.rank(scores)"

    after = candidate.eval(f"[[{calls}], visits, names, scores][1:]", imports=["busy"], names=names)

    assert after == [names["visits"], names["names"], names["scores"]]


def test_gaps_outside_of_the_period(candidate):
    assert candidate.call("busy", "gaps", [(5, 9)], 9, 9) == []
    assert candidate.call("busy", "gaps", [(0, 100)], 10, 20) == []
    assert candidate.call("busy", "gaps", [], -3, 4) == [(-3, 4)]


def peak_of(visits):
    steps = Counter()
    for start, end in visits:
        steps[start] += 1
        steps[end] -= 1
    here, best = 0, (None, 0)
    for minute in sorted(steps):
        here += steps[minute]
        best = (minute, here) if here > best[1] else best
    return best


def gaps_of(visits, last):
    taken = sorted(visits)
    ends = [0, *(end for _, end in taken)]
    starts = [*(start for start, _ in taken), last]
    return [(low, high) for low, high in zip(ends, starts) if low < high]


def ranks_of(scores):
    first = {}
    for index, score in enumerate(sorted(scores)):
        first.setdefault(score, index)
    return [first[score] for score in scores]


def test_large_inputs_take_seconds(candidate):
    """All four in one test, so that the limit holds for them together."""
    names = eval(NAMES)
    counts = Counter(zip(names, names[1:]))
    calls = f"[busy.peak({WIDE}), busy.gaps({APART}, 0, {4 * SIZE}), busy.busiest_pairs({NAMES}), busy.rank({SCORES})]"

    peak, gaps, pairs, ranks = candidate.eval(calls, imports=["busy"])

    assert peak == peak_of(eval(WIDE))
    assert gaps == gaps_of(eval(APART), 4 * SIZE)
    assert pairs == sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:TOP]
    assert ranks == ranks_of(eval(SCORES))
