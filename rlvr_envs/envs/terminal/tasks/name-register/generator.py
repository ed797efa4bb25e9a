"""Names in Latin, Greek, Cyrillic, Arabic, Devanagari, Han, Hangul, each in several spellings."""

import unicodedata

from rlvr_envs.tasks.making import folder, pick, picks, whole
from rlvr_envs.tasks.task import FileSpec, Recipe

NAMES = [
    "Straße", "STRASSE", "Ｔｏｋｙｏ", "tokyo", "Ivan", "Иван", "ИВАН", "Zoë Müller", "zoë müller", "Łukasz", "ŁUKASZ", "Ὀδυσσεύς",
    "ὈΔΥΣΣΕΎΣ", "محمد علي", "فاطمة", "अनुष्का शर्मा", "王小明", "王　小明", "김민수", "ｷﾑ", "キム", "İbrahim", "ibrahim", "ﬁona", "Fiona", "Ångström",
    "Ångström", "Nguyễn Văn Ân", "NGUYỄN VĂN ÂN", "O’Neill", "O'Neill", "Ǆemal", "ǆemal", "😀 Smile", "Ⅳ Karl", "iv karl", "Þóra", "ſam", "SAM",
]
INVISIBLE = ["\u200b", "\u00ad", "\ufeff"]
SPACES = [" ", "\u00a0", "\u3000", "\t", "  ", "\u2003 "]
BROKEN = [b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80x", b"ok \xc3"]


def _spelled(rng, name):
    name = unicodedata.normalize(pick(rng, ["NFC", "NFD", "NFC"]), name)
    name = name.replace(" ", pick(rng, SPACES))
    if whole(rng, 0, 4) == 0:
        name = name.upper() if whole(rng, 0, 1) else name.lower()
    if whole(rng, 0, 4) == 0:
        place = whole(rng, 0, len(name))
        name = name[:place] + pick(rng, INVISIBLE) + name[place:]
    if whole(rng, 0, 5) == 0:
        name = pick(rng, SPACES) + name + pick(rng, SPACES)
    return name


def _file(rng, count, mark):
    rows = []
    known = picks(rng, NAMES, whole(rng, 20, len(NAMES)))
    for _ in range(count):
        chance = whole(rng, 0, 30)
        row = _spelled(rng, pick(rng, known)).encode()
        row = pick(rng, BROKEN) if chance == 0 else b" \xe2\x80\x8b" if chance == 1 else row
        row = row + b"\x0bx" if chance == 2 else row + b"\xe2\x80\xa8y" if chance == 3 else row
        rows.append(row + (b"\r\n" if whole(rng, 0, 3) == 0 else b"\n"))
    return (b"\xef\xbb\xbf" if mark else b"") + b"".join(rows)


def _key(name):
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded)


def _register(data, spelling):
    counts, shown, skipped = {}, {}, 0
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for line in lines:
        try:
            name = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            skipped += 1
            continue
        for character in INVISIBLE:
            name = name.replace(character, "")
        name = " ".join(name.split())
        if not name:
            continue
        key = _key(name)
        counts[key] = counts.get(key, 0) + 1
        if spelling == "last" or key not in shown:
            shown[key] = unicodedata.normalize("NFC", name)
    order = sorted(counts, key=lambda key: (-counts[key], key))
    return "".join(f"{shown[key]}\t{counts[key]}\n" for key in order), skipped


def generate(rng, number):
    spelling = pick(rng, ["first", "last"])
    data = _file(rng, 500, whole(rng, 0, 1))
    return Recipe(
        files=(folder("/app"), FileSpec("/data/names.txt", data)),
        values={"spelling": spelling},
        hidden={"spelling": spelling, "table": _register(data, spelling)[0]},
    )


def hidden(rng, recipe):
    cases = []
    for count in (0, 1, 30, 300, 900):
        data = _file(rng, count, count % 2)
        table, skipped = _register(data, recipe.hidden["spelling"])
        cases.append({"hex": data.hex(), "table": table, "skipped": skipped})
    return {"cases": cases}
