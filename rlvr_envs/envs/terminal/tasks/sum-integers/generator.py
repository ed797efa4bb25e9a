"""Files of integers, with signs, comments and uneven white space."""

from rlvr_envs.tasks.making import folder, pick, text, whole
from rlvr_envs.tasks.task import Recipe


def _number(rng):
    value = whole(rng, -99_999, 99_999)
    return f"+{value}" if value >= 0 and whole(rng, 0, 5) == 0 else str(value)


def _file(rng, count):
    pieces = []
    for _ in range(count):
        pieces.append(_number(rng))
        pieces.append(pick(rng, [" ", "\n", "\n", "  ", "\t", "\n\n"]))
        if whole(rng, 0, 12) == 0:
            pieces.append(f"# batch {whole(rng, 1, 900)}, see {_number(rng)}\n")
    return "".join(pieces) + "\n"


def _sum(content):
    lines = (line.split("#", 1)[0] for line in content.splitlines())
    return sum(int(word) for line in lines for word in line.split())


def generate(rng, number):
    count = whole(rng, 80, 160)
    content = _file(rng, count)
    return Recipe(
        files=(folder("/app"), text("/data/n.txt", content, user=0)),
        values={"count": round(count, -1)},
        hidden={"answer": str(_sum(content)), "data": content},
    )


def hidden(rng, recipe):
    big = f"{whole(rng, 10**17, 10**18)}{whole(rng, 10**17, 10**18)} -1\n"
    cases = {
        "long": _file(rng, 400),
        "short": _file(rng, 3),
        "empty": "",
        "comments": "# 5 6\n\n   # 7\n",
        "big": big,
        "one": f"{whole(rng, 2, 999)}",
        "glued": f"{whole(rng, 2, 99)}# 9\n{whole(rng, 2, 99)}\t#8#7\n",
    }
    return {
        "cases": [
            {"name": name, "content": content, "sum": str(_sum(content))}
            for name, content in cases.items()
        ]
    }
