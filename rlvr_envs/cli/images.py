"""`rlvr images`: list, build, verify, lock, carry and prune base images."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlvr_envs.cli.shell import Shell, status
from rlvr_envs.errors import CallerError, SnapshotError
from rlvr_envs.snapshots.archive import export_image, import_image
from rlvr_envs.snapshots.images import build_image, check_drift, ensure_image
from rlvr_envs.snapshots.pruning import prune
from rlvr_envs.snapshots.recipes import LOCK, ImageLock, recipes, write_lock
from rlvr_envs.snapshots.sources import source_from
from rlvr_envs.snapshots.store import ImageStore, StoredImage

MIB = 1 << 20


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser(
        "images", help="list, build, verify and carry base images"
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="stored images, and recipes not built yet")
    _add_build(actions)
    verify = actions.add_parser("verify", help="read every byte and compare the digest")
    verify.add_argument("names", nargs="*", metavar="NAME", help="default: all stored")
    lock = actions.add_parser("lock", help="write a built image's versions to the lock")
    lock.add_argument("names", nargs="*", metavar="NAME", help="default: base")
    lock.add_argument(
        "--output",
        type=Path,
        default=LOCK,
        metavar="FILE",
        help="default: the package's",
    )
    export = actions.add_parser("export", help="write an image to a file")
    export.add_argument("name", metavar="NAME")
    export.add_argument(
        "file", type=Path, metavar="FILE", help="FILE.tar or FILE.tar.gz"
    )
    bring = actions.add_parser("import", help="read an image from a file")
    bring.add_argument("file", type=Path, metavar="FILE")
    bring.add_argument("--name", metavar="NAME", help="another name for it")
    actions.add_parser("prune", help="remove unnamed images and cached layers")


def _add_build(actions: Any) -> None:
    build = actions.add_parser("build", help="build what is missing")
    build.add_argument("names", nargs="*", metavar="NAME", help="default: base")
    build.add_argument("--force", action="store_true", help="build again what is there")
    source = build.add_mutually_exclusive_group()
    source.add_argument(
        "--from",
        dest="origin",
        metavar="SOURCE",
        help="docker:REFERENCE, oci:FILE[@sha256:...] or folder:DIR; needs one NAME",
    )
    source.add_argument(
        "--sources",
        type=Path,
        metavar="FILE",
        help="apt sources in place of the host's own, such as a dated archive's",
    )


def run(args: argparse.Namespace) -> int:
    """Do what the action says."""
    return _ACTIONS[args.action](args, Shell(as_json=args.json))


def _list(args: argparse.Namespace, shell: Shell) -> int:
    store = ImageStore(args.places)
    stored = [_row(store.image(name), "stored") for name in store.names()]
    known = {row["image"] for row in stored}
    missing = [
        {"image": name, "status": "missing", "source": "debian", "digest": ""}
        for name in recipes()
        if name not in known
    ]
    rows = [*stored, *missing]
    for row in rows:
        shell.emit(row)
    shell.table(
        "Images", ("image", "status", "source", "MiB", "digest"), map(_cells, rows)
    )
    return 0


def _row(image: StoredImage, word: str) -> dict[str, Any]:
    return {
        "image": image.name,
        "status": word,
        "source": image.provenance.source,
        "digest": image.digest,
        "content_bytes": image.content_bytes,
        "entries": image.entries,
        "packages": len(image.provenance.packages),
        "drift": len(check_drift(image)),
    }


def _cells(row: Mapping[str, Any]) -> Sequence[object]:
    size = row.get("content_bytes")
    mib = None if size is None else size // MIB
    return (row["image"], status(row["status"]), row["source"], mib, row["digest"][:19])


def _build(args: argparse.Namespace, shell: Shell) -> int:
    names = args.names or ["base"]
    if args.origin is not None and len(args.names) != 1:
        raise CallerError(
            f"--from makes one image, and {len(args.names)} are named.",
            remedy="give exactly one NAME for the image that it makes",
        )
    for name in names:
        there = ImageStore(args.places).has(name) and not args.force
        image = _built(args, name, shell)
        shell.emit(_row(image, "present" if there else "built"))
        shell.text(f"{name}: {'is there' if there else 'built'}, {image.digest}")
        _tell_drift(image, shell)
    return 0


def _built(args: argparse.Namespace, name: str, shell: Shell) -> StoredImage:
    if args.origin is not None:
        source = source_from(args.origin)
        return ImageStore(args.places).build(name, source, progress=shell.say)
    if args.force or args.sources:
        return build_image(name, args.places, sources=args.sources, progress=shell.say)
    return ensure_image(name, args.places, progress=shell.say)


def _tell_drift(image: StoredImage, shell: Shell) -> None:
    lines = check_drift(image)
    if lines:
        shell.say(
            f"{image.name}: {len(lines)} packages differ from the lock, since the "
            "distribution moved on. That is no error; `rlvr images lock "
            f"{image.name}` takes the new versions into the lock."
        )


def _verify(args: argparse.Namespace, shell: Shell) -> int:
    store = ImageStore(args.places)
    rows = [_verified(store, name, shell) for name in args.names or store.names()]
    for row in rows:
        shell.emit(row)
    columns = ("image", "status", "digest", "drift")
    cells = [[row[key] for key in columns] for row in rows]
    shell.table("Images", columns, ([a, status(b), c, d] for a, b, c, d in cells))
    return 0 if all(row["status"] == "ok" for row in rows) else 1


def _verified(store: ImageStore, name: str, shell: Shell) -> Mapping[str, Any]:
    try:
        image = store.verify(name)
    except SnapshotError as error:
        shell.say(str(error))
        return {
            "image": name,
            "status": "failed",
            "digest": "",
            "drift": 0,
            "error": str(error),
        }
    for line in check_drift(image):
        shell.say(f"{name}: {line}")
    return {**_row(image, "ok"), "error": ""}


def _lock(args: argparse.Namespace, shell: Shell) -> int:
    store = ImageStore(args.places)
    for name in args.names or ["base"]:
        made = store.image(name).provenance
        write_lock(name, ImageLock(made.recipe, made.packages), args.output)
        row = {"image": name, "packages": len(made.packages), "lock": str(args.output)}
        shell.emit(row)
        shell.text(f"{name}: {row['packages']} versions written to {args.output}")
    return 0


def _export(args: argparse.Namespace, shell: Shell) -> int:
    store = ImageStore(args.places)
    image = export_image(store, args.name, args.file, progress=shell.say)
    shell.emit({**_row(image, "exported"), "file": str(args.file)})
    shell.text(f"{image.name}: written to {args.file}, {image.digest}")
    return 0


def _import(args: argparse.Namespace, shell: Shell) -> int:
    store = ImageStore(args.places)
    image = import_image(store, args.file, name=args.name, progress=shell.say)
    shell.emit(_row(image, "imported"))
    shell.text(f"{image.name}: imported, {image.digest}")
    return 0


def _prune(args: argparse.Namespace, shell: Shell) -> int:
    gone = prune(args.places)
    shell.emit(asdict(gone))
    shell.text(
        f"removed {gone.images} images, {gone.layers} layers and {gone.unfinished} "
        f"unfinished builds, {gone.content_bytes // MIB} MiB"
    )
    return 0


_ACTIONS: Mapping[str, Callable[[argparse.Namespace, Shell], int]] = {
    "list": _list,
    "build": _build,
    "verify": _verify,
    "lock": _lock,
    "export": _export,
    "import": _import,
    "prune": _prune,
}
