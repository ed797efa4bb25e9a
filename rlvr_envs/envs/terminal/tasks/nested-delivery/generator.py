"""Archives within archives, packed inside the image so that its tools decide the bytes."""

import hashlib
import json

from rlvr_envs.tasks.making import folder, pick, picks, text, whole
from rlvr_envs.tasks.task import Recipe

STEMS = ["report", "Übersicht", "data set", "map", "index", "photo", "notes", "price list", "плaн", "code"]
PLACES = ["", "docs/", "docs/old stuff/", "img/", "a/b/c/"]
EVIL = ["../../outside.txt", "/app/absolute.txt", "docs/../../up.txt", "..", "img/../x.txt", "/etc/cron.d/job"]

PACK = '''"""Packs what plan.json says; runs once, while the instance is made."""
import io, json, os, tarfile, zipfile

def tar(members, mode):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.PAX_FORMAT) as pack:
        for row in members:
            info = tarfile.TarInfo(row["name"])
            info.mtime = 1700000000
            if "link" in row:
                info.type, info.linkname = (tarfile.SYMTYPE if row["soft"] else tarfile.LNKTYPE), row["link"]
                pack.addfile(info)
            else:
                data = content(row)
                info.size = len(data)
                pack.addfile(info, io.BytesIO(data))
    data = out.getvalue()
    if mode == "gz":
        import gzip
        return gzip.compress(data, mtime=0)
    if mode == "xz":
        import lzma
        return lzma.compress(data)
    return data

def packed_zip(members):
    import warnings
    warnings.simplefilter("ignore")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as pack:
        for row in members:
            info = zipfile.ZipInfo(row["name"], (2023, 5, 6, 7, 8, 10))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o120777 if "link" in row else 0o100600) << 16
            pack.writestr(info, row["link"].encode() if "link" in row else content(row))
    return out.getvalue()

def content(row):
    if "members" in row:
        name = row["name"]
        if name.endswith(".zip"):
            return packed_zip(row["members"])
        return tar(row["members"], "gz" if name.endswith(".gz") else "xz" if name.endswith(".xz") else "")
    return row["text"].encode()

plan = json.load(open("/var/tmp/plan.json"))
os.makedirs("/data", exist_ok=True)
with open("/data/delivery.tar.gz", "wb") as out:
    out.write(tar(plan, "gz"))
os.chmod("/data/delivery.tar.gz", 0o644)
'''


def _text(rng):
    return "".join(f"{whole(rng, 0, 10**9)}\n" for _ in range(whole(rng, 1, 30)))


def _files(rng):
    names = [f"{pick(rng, PLACES)}{stem}-{whole(rng, 1, 99)}.{pick(rng, ['txt', 'csv', 'bin'])}" for stem in STEMS]
    return {name: _text(rng) for name in dict.fromkeys(names)}


def _spread(rng, files):
    """Each right copy in one of four archives, with wrong ones before and after it."""
    parts = [[], [], [], []]
    for name, content in files.items():
        home = whole(rng, 0, 3)
        if whole(rng, 0, 1):
            parts[home].append({"name": name, "text": content[:-2] + "x\n"})
        parts[home].append({"name": name, "text": content})
        if whole(rng, 0, 2) == 0:
            parts[home].append({"name": name, "text": ""})
        if whole(rng, 0, 1):
            parts[whole(rng, 0, 3)].append({"name": name, "text": content + "old\n"})
    return parts


def _traps(rng, parts):
    refused = set()
    for part in parts:
        for name in picks(rng, EVIL, 2):
            part.insert(whole(rng, 0, len(part)), {"name": name, "text": "trap\n"})
            refused.add(name)
        part.append({"name": f"extra-{whole(rng, 1, 99)}.tmp", "text": "nobody listed me\n"})
        link = f"link-{whole(rng, 1, 99)}"
        part.insert(0, {"name": link, "link": pick(rng, ["/etc", "/app", "../..", "docs"]), "soft": True})
        refused.add(link)
    hard = f"hard-{whole(rng, 1, 99)}.txt"
    parts[0].append({"name": hard, "link": "/etc/passwd", "soft": False})
    return sorted(refused | {hard})


def generate(rng, number):
    files = _files(rng)
    parts = _spread(rng, files)
    refused = _traps(rng, parts)
    sums = {name: hashlib.sha256(content.encode()).hexdigest() for name, content in files.items()}
    manifest = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    inner = {"name": "deep/part-3.tar", "members": parts[3]}
    plan = [
        {"name": "README", "text": "Unpack with care.\n"},
        {"name": "part-0.tar.gz", "members": parts[0]},
        {"name": "old/part-1.zip", "members": [*parts[1], {"name": "meta/MANIFEST.sha256", "text": manifest}]},
        {"name": "part-2.tar.xz", "members": [*parts[2], inner]},
    ]
    setup = "set -eu; cd /var/tmp; python3 -I pack.py; rm -f pack.py plan.json"
    return Recipe(
        files=(
            folder("/app"),
            text("/var/tmp/pack.py", PACK, mode=0o600, user=0),
            text("/var/tmp/plan.json", json.dumps(plan, sort_keys=True), mode=0o600, user=0),
        ),
        setup=(("bash", "-c", setup),),
        hidden={"sums": sums, "refused": refused},
    )
