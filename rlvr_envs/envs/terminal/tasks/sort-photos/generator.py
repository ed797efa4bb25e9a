"""A script that is wrong about names, and trees with wild ones."""

import os

from rlvr_envs.tasks.making import folder, pick, picks, text, whole
from rlvr_envs.tasks.task import Recipe

SCRIPT = """#!/bin/bash
# Gathers pictures.
mkdir -p $2
count=0
for file in $(find $1 -name "*.{extension}"); do
    name=$(basename $file)
    letter=$(echo $name | cut -c1)
    mkdir -p $2/$letter
    cp $file $2/$letter
    count=$((count + 1))
done
echo copied $count
"""
STEMS = [
    "cat", "Cat", "two  words", " lead", "-n", "-rf", "new\nline", "quote'\"s", "glob*?[a]", "back\\slash", "dots.in.name", "éclair",
    "1st", "~home", "$HOME", "a;b", "tab\there", "cat~2", "#x", "Zed",
]
FOLDERS = ["", "inner", "in ner", "-d", "new\nfolder", "a*b", ".hidden", "deep/er/est"]


def generate(rng, number):
    extension = pick(rng, ["jpg", "jpeg", "tif", "webp"])
    status = pick(rng, [2, 64])
    script = SCRIPT.format(extension=extension)
    sample = [
        text(f"/data/album/{name}", f"picture {whole(rng, 0, 10**6)}\n", user=0)
        for name in (f"beach.{extension}", f"my dog.{extension}", f"old/beach.{extension}", "notes.txt")
    ]
    return Recipe(
        files=(folder("/app"), text("/app/collect.sh", script, mode=0o755), *sample),
        values={"extension": extension, "status": status},
        hidden={"extension": extension, "status": status},
    )


def _tree(rng, extension, count):
    files = {}
    for place in picks(rng, FOLDERS, whole(rng, 3, len(FOLDERS))):
        for stem in picks(rng, STEMS, count):
            ending = pick(rng, [extension, extension.upper(), extension.title(), "png", "PnG", "txt", f"{extension}.bak"])
            name = f"{place}/{stem}.{ending}" if place else f"{stem}.{ending}"
            files[os.fsencode(name)] = f"{whole(rng, 0, 10**9)}"
    if count > 4:
        files[b"raw\xff\xfe." + extension.encode()] = "bytes"
        files[b".dot." + extension.encode()] = "hidden"
    return files


def hidden(rng, recipe):
    extension = recipe.hidden["extension"]
    trees = [_tree(rng, extension, count) for count in (0, 2, 6, 12, len(STEMS))]
    trees[1] = {f"tame{n}.{extension}".encode(): str(n) for n in range(3)}
    return {"trees": [{name.hex(): content for name, content in tree.items()} for tree in trees]}
