"""An image carried to another machine: one tar file with its metadata and digest."""

from __future__ import annotations

import io
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path

from rlvr_envs.errors import CallerError, SnapshotError
from rlvr_envs.snapshots.locking import partial
from rlvr_envs.snapshots.sources.base import Progress, silent
from rlvr_envs.snapshots.store import ImageStore, StoredImage
from rlvr_envs.snapshots.tree import Entry, attributes, opened, walk
from rlvr_envs.snapshots.unpack import XATTR, Unpacker

METADATA = "image.json"
ROOT = "root"
COMPRESSED = {".gz": "gz", ".xz": "xz", ".bz2": "bz2"}
TYPES = {
    "file": tarfile.REGTYPE,
    "dir": tarfile.DIRTYPE,
    "link": tarfile.SYMTYPE,
    "fifo": tarfile.FIFOTYPE,
    "device": tarfile.CHRTYPE,
}


def export_image(
    store: ImageStore, name: str, file: Path, *, progress: Progress = silent
) -> StoredImage:
    """Write an image as a tar file, compressed if its suffix says so.

    The image is verified first. Equal images give equal uncompressed files.

    Raises:
        SnapshotError: If it is not stored, or changed.
        CallerError: If the file cannot be written.
    """
    progress("Verifying the image.")
    image = store.verify(name)
    progress(f"Writing {file}.")
    try:
        with _writer(file) as archive:
            text = json.dumps(image.to_json(), sort_keys=True).encode()
            header = tarfile.TarInfo(METADATA)
            header.size = len(text)
            archive.addfile(header, io.BytesIO(text))
            _add_tree(archive, store.root(image))
    except OSError as error:
        file.unlink(missing_ok=True)
        raise CallerError(
            f"{file} cannot be written: {error.strerror}.",
            remedy="choose a folder that exists and has room.",
        ) from error
    return image


def _writer(file: Path) -> tarfile.TarFile:
    compression = COMPRESSED.get(file.suffix, "")
    return tarfile.open(file, f"w:{compression}", format=tarfile.PAX_FORMAT)  # type: ignore[call-overload, no-any-return]  # the mode is chosen by suffix


def _add_tree(archive: tarfile.TarFile, root: Path) -> None:
    first = tarfile.TarInfo(ROOT)
    _describe(first, root.stat(), tarfile.DIRTYPE)
    archive.addfile(first)
    names: dict[int, str] = {}
    for entry in walk(root):
        _add(archive, entry, names)


def _add(archive: tarfile.TarFile, entry: Entry, names: dict[int, str]) -> None:
    header = tarfile.TarInfo(f"{ROOT}/{entry.path}")
    _describe(header, entry.info, TYPES[entry.kind])
    if entry.kind == "link":
        header.linkname = os.readlink(entry.name, dir_fd=entry.folder)
    if entry.kind not in ("file", "dir"):
        archive.addfile(header)
        return
    if entry.kind == "file" and entry.info.st_nlink > 1:
        first = names.setdefault(entry.info.st_ino, header.name)
        if first != header.name:
            header.type, header.linkname, header.size = tarfile.LNKTYPE, first, 0
            archive.addfile(header)
            return
    with opened(entry) as descriptor:
        listed = [
            part.decode("utf-8", "surrogateescape") for part in attributes(descriptor)
        ]
        pairs = zip(listed[::2], listed[1::2], strict=True)
        header.pax_headers = {f"{XATTR}{name}": value for name, value in pairs}
        with (
            os.fdopen(os.dup(descriptor), "rb")
            if header.isfile()
            else io.BytesIO() as content
        ):
            archive.addfile(header, content)


def _describe(header: tarfile.TarInfo, info: os.stat_result, kind: bytes) -> None:
    header.type = kind
    header.mode = info.st_mode & 0o7777
    header.uid, header.gid = info.st_uid, info.st_gid
    header.mtime = info.st_mtime_ns // 1_000_000_000
    header.size = info.st_size if kind == tarfile.REGTYPE else 0
    header.devmajor, header.devminor = os.major(info.st_rdev), os.minor(info.st_rdev)


def import_image(
    store: ImageStore,
    file: Path,
    *,
    name: str | None = None,
    progress: Progress = silent,
) -> StoredImage:
    """Read an image that `export_image` wrote; its digest must come out the same.

    Args:
        store: Where it goes; an image of that name is replaced.
        file: The archive.
        name: Another name for it.
        progress: Is told what is being done.

    Raises:
        CallerError: If there is no such file.
        SnapshotError: If it is no exported image, damaged, or has another digest.
    """
    if not file.is_file():
        raise CallerError(
            f"There is no file {file}.",
            remedy="name one that `rlvr images export` wrote",
        )
    with partial(store.folder) as work:
        progress(f"Reading {file}.")
        try:
            image = _read(file, work)
        except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError) as error:
            raise SnapshotError(
                f"{file} is no exported image, or damaged: {error}.",
                remedy="write it with `rlvr images export NAME FILE`.",
            ) from error
        image = replace(image, name=name or image.name)
        return store.adopt(image, work / ROOT, progress=progress)


def _read(file: Path, work: Path) -> StoredImage:
    image: StoredImage | None = None
    unpacker = Unpacker(work)
    with tarfile.open(file, "r|*") as archive:
        for member in archive:
            if member.name == METADATA and image is None:
                content = archive.extractfile(member)
                image = StoredImage.from_json(json.load(content or io.BytesIO()))
            elif member.name == ROOT or member.name.startswith(f"{ROOT}/"):
                unpacker.take(archive, member)
    unpacker.finish()
    if image is None or not (work / ROOT).is_dir():
        raise ValueError("it lacks its metadata or its tree")
    return image
