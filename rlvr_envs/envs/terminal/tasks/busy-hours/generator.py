"""A slow report, and inputs that tell slow from fast."""

from rlvr_envs.tasks.making import pick, text, whole
from rlvr_envs.tasks.task import Recipe

MODULE = '''"""Reports on visits to a {place}."""


def peak(visits):
    """Return the first minute with the most visitors, and how many they were."""
    best, count = None, 0
    for minute in sorted(start for start, _ in visits):
        here = len([1 for start, end in visits if start <= minute < end])
        if here > count:
            best, count = minute, here
    return best, count


def gaps(visits, first, last):
    """Return the periods from `first` until `last` in which nobody was there."""
    free = [(first, last)] if first < last else []
    for start, end in visits:
        rest = []
        for low, high in free:
            if end <= low or high <= start:
                rest.append((low, high))
                continue
            if low < start:
                rest.append((low, start))
            if end < high:
                rest.append((end, high))
        free = sorted(rest)
    return free


def busiest_pairs(names):
    """Return the {top} most frequent pairs of neighbours, with their counts."""
    pairs = []
    for index in range(len(names) - 1):
        pair = (names[index], names[index + 1])
        if pair not in [known for known, _ in pairs]:
            count = [pair == (names[i], names[i + 1]) for i in range(len(names) - 1)].count(True)
            pairs.append((pair, count))
    return sorted(pairs, key=lambda row: (-row[1], row[0]))[:{top}]


def rank(scores):
    """Return how many scores are smaller than each."""
    return [sum(1 for other in scores if other < score) for score in scores]
'''


def generate(rng, number):
    place = pick(rng, ["museum", "library", "swimming pool", "workshop"])
    top, size = whole(rng, 3, 9), 60_000
    source = MODULE.format(place=place, top=top)
    return Recipe(
        files=(text("/app/busy.py", source),),
        values={"place": place, "top": top, "size": f"{size:_}"},
        hidden={"top": top, "size": size, "source": source},
    )


def hidden(rng, recipe):
    space = {}
    exec(recipe.hidden["source"], space)
    small = []
    for count in (0, 1, 2, 3, 8, 20, 45):
        span = pick(rng, [10, 60, 10**12])
        starts = [whole(rng, -span, span) for _ in range(count)]
        visits = [[start, start + whole(rng, 1, max(2, span // 8))] for start in starts]
        names = [pick(rng, ["ann", "bob", "cyd"]) for _ in range(count)]
        scores = [whole(rng, -5, 5) for _ in range(count)]
        small.append({
            "visits": visits, "names": names, "scores": scores, "first": -span // 2, "last": span,
            "peak": list(space["peak"](visits)), "gaps": space["gaps"](visits, -span // 2, span),
            "pairs": space["busiest_pairs"](names), "rank": space["rank"](scores),
        })
    return {"small": small, "seed": whole(rng, 1, 2**31 - 2), "source": ""}
