"""A wrong addition, and cases that tell right from wrong."""

from rlvr_envs.tasks.making import pick, text, whole
from rlvr_envs.tasks.task import Recipe

WRONG = [
    "    return a - b\n",
    "    return a | b\n",
    "    return a + b + 1 if a > 99 else a + b\n",
    "    return int(str(a)) if not b else a ^ b\n",
]

VISIBLE = '''"""A part of what `add` has to do."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from sol import add


class AddTest(unittest.TestCase):
    def test_small(self):
        self.assertEqual(add({a}, {b}), {sum})

    def test_text(self):
        self.assertEqual(add("1{separator}000", 2), 1002)


if __name__ == "__main__":
    unittest.main()
'''


def generate(rng, number):
    separator = pick(rng, [",", "_", "'", "."])
    a, b = whole(rng, 11, 99), whole(rng, 101, 999)
    module = '"""Additions."""\n\n\ndef add(a, b):\n' + pick(rng, WRONG)
    visible = VISIBLE.format(a=a, b=b, sum=a + b, separator=separator)
    return Recipe(
        files=(text("/app/sol.py", module), text("/app/tests/test_sol.py", visible)),
        values={"separator": separator},
        hidden={"separator": separator},
    )


def _grouped(value, separator):
    return f"{value:,}".replace(",", separator)


def hidden(rng, recipe):
    separator = recipe.hidden["separator"]
    numbers = [[whole(rng, -999, 999), whole(rng, -10**6, 10**6)] for _ in range(6)]
    numbers += [[10**30 + whole(rng, 0, 99), -(10**30)], [0, 0]]
    texts = []
    for _ in range(4):
        a, b = whole(rng, -10**9, 10**9), whole(rng, -10**5, 10**5)
        texts.append([f" {_grouped(a, separator)} ", b, a + b])
        texts.append([b, f"+{_grouped(abs(a), separator)}", b + abs(a)])
    bad = ["", "  ", "12x", "--3", "four", "1e3", "0x10"]
    return {"numbers": numbers, "texts": texts, "bad": bad}
