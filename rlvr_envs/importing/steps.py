"""Turn a plan into a recipe: build files, and commands that need no network.

This is the direct route: each step runs as the Dockerfile has it, in a sandbox on
our own image. Package managers are stood in for by shims that install nothing and
fail, as the real ones would, where the image lacks what is asked for.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlvr_envs.errors import TaskError
from rlvr_envs.importing.bases import STAND_INS
from rlvr_envs.importing.plan import Copy, Folder, Plan, Run, Step
from rlvr_envs.tasks.task import FileSpec, Recipe

BUILD = "/.build"
"""Inside, while the steps run; removed by the last of them."""

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
LIMIT_BYTES = 64 << 20

_APT = f"""#!/bin/sh
# Installs nothing: says whether the image has what is asked for.
case " $* " in *" install "*) ;; *) exit 0 ;; esac
for word; do
  case $word in -*|install) continue ;; esac
  name=${{word%%[=/:]*}}
  case " {" ".join(sorted(STAND_INS))} " in *" $name "*) continue ;; esac
  dpkg-query -W -f='${{db:Status-Status}}\\n' "$name" 2>/dev/null | grep -qx installed ||
    {{ echo "E: Unable to locate package $name" >&2; exit 100; }}
done
"""

_PIP = """#!/usr/bin/python3
# Installs nothing: says whether the image has what is asked for.
import re
import sys
from importlib import metadata

words = sys.argv[1:]
if words[:1] != ["install"]:
    sys.exit(0)
skip = False
for word in words[1:]:
    if skip or word.startswith("-"):
        skip = word in ("-i", "--index-url", "-r", "-c", "--extra-index-url", "-t")
        if word in ("-r", "--requirement"):
            sys.exit("ERROR: Requirement files are not read offline.")
        continue
    name = re.match(r"[A-Za-z0-9._-]+", word)
    try:
        metadata.distribution(name[0] if name else word)
    except metadata.PackageNotFoundError:
        sys.exit(f"ERROR: No matching distribution found for {word}")
"""

_PLACE = """# place SOURCE TARGET OWNER MODE: as COPY does.
own() {
  [ -z "$2" ] || chown -h "$2" "$1"
  [ -z "$3" ] || [ -L "$1" ] || chmod "$3" "$1"
}
place() {
  case $2 in */) mkdir -p "$2" ;; *) mkdir -p "$(dirname "$2")" ;; esac
  if [ -d "$1" ]; then
    mkdir -p "$2"
    cp -a "$1/." "$2"
    (cd "$1" && find . -mindepth 1) | while IFS= read -r name; do
      own "$2/$name" "$3" "$4"
    done
  elif [ -d "$2" ]; then
    cp -a "$1" "$2"
    own "${2%/}/$(basename "$1")" "$3" "$4"
  else
    cp -a "$1" "$2"
    own "$2" "$3" "$4"
  fi
}
"""


def recipe(plan: Plan, context: Path) -> Recipe:
    """Return what builds the plan's final file system on our image.

    Args:
        plan: Of the Dockerfile.
        context: The build context on the host.

    Raises:
        TaskError: If a step copies what the context lacks, or needs another route.
    """
    files = [
        FileSpec(f"{BUILD}/bin/apt-get", _APT.encode(), mode=0o755),
        FileSpec(f"{BUILD}/bin/apt", _APT.encode(), mode=0o755),
        FileSpec(f"{BUILD}/bin/pip", _PIP.encode(), mode=0o755),
        FileSpec(f"{BUILD}/bin/pip3", _PIP.encode(), mode=0o755),
        FileSpec(f"{BUILD}/place.sh", _PLACE.encode()),
        *_context(plan, context),
    ]
    setup: list[tuple[str, ...]] = []
    for number, step in enumerate(plan.steps):
        path = f"{BUILD}/step-{number:03d}-line-{step.line}.sh"
        files.append(FileSpec(path, _script(step, context, number).encode()))
        files += _inline(step, number)
        setup.append(("/bin/sh", path))
    setup.append(("/bin/rm", "-rf", BUILD))
    return Recipe(files=tuple(files), setup=tuple(setup))


def _context(plan: Plan, context: Path) -> Iterator[FileSpec]:
    """Yield the parts of the context that some step copies."""
    wanted = sorted(
        {
            name
            for step in plan.steps
            if isinstance(step, Copy)
            for name in sources(step, context)
        }
    )
    total = 0
    for spec in dict.fromkeys(_walk(wanted, context)):
        total += len(spec.data)
        if total > LIMIT_BYTES:
            raise TaskError("The build context is too large.", file=context)
        yield spec


def _walk(names: Iterable[str], context: Path) -> Iterator[FileSpec]:
    for name in names:
        path = context / name
        yield _spec(path, context)
        if path.is_dir() and not path.is_symlink():
            inner = sorted(os.listdir(path))  # noqa: PTH208 (names, as they are)
            yield from _walk((posixpath.join(name, part) for part in inner), context)


def _spec(path: Path, context: Path) -> FileSpec:
    inside = posixpath.normpath(
        f"{BUILD}/context/{path.relative_to(context).as_posix()}"
    )
    mode = stat.S_IMODE(path.lstat().st_mode)
    if path.is_symlink():
        return FileSpec(inside, os.fsencode(path.readlink()), kind="link")
    if path.is_dir():
        return FileSpec(inside, kind="dir", mode=mode)
    return FileSpec(inside, path.read_bytes(), mode=mode)


def sources(step: Copy, context: Path) -> tuple[str, ...]:
    """Return the files and folders that a step copies, relative to the context.

    Raises:
        TaskError: If one is missing, lies outside, or comes from elsewhere.
    """
    file = context / "Dockerfile"
    if step.stage or any("://" in source for source in step.sources):
        raise TaskError(
            "The step copies from another stage or from the network.",
            file=file,
            line=step.line,
            remedy="Build it with --builder docker or --builder buildah.",
        )
    found: list[str] = []
    for source in step.sources:
        name = posixpath.normpath(source.lstrip("/") or ".")
        matches = _matches(name, context)
        if not matches or name.startswith(".."):
            raise TaskError(
                f"The build context has no {source!r}.", file=file, line=step.line
            )
        found += matches
    return tuple(found)


def _matches(pattern: str, context: Path) -> list[str]:
    if not any(letter in pattern for letter in "*?["):
        return [pattern] if os.path.lexists(context / pattern) else []
    folder, _, last = pattern.rpartition("/")
    parents = _matches(folder, context) if folder else [""]
    return sorted(
        posixpath.join(parent, name)
        for parent in parents
        if (context / parent).is_dir()
        for name in os.listdir(context / parent)  # noqa: PTH208 (names, as they are)
        if fnmatch.fnmatchcase(name, last)
    )


def _inline(step: Step, number: int) -> Iterator[FileSpec]:
    if isinstance(step, Copy):
        for name, body in step.inline:
            yield FileSpec(f"{BUILD}/inline-{number:03d}/{name}", body.encode())


def _script(step: Step, context: Path, number: int) -> str:
    if isinstance(step, Folder):
        return f"mkdir -p {shlex.quote(step.path)}\n"
    if isinstance(step, Run):
        return _run(step, context)
    return _copy(step, context, number)


def _run(step: Run, context: Path) -> str:
    if step.user not in ("", "root", "0", "root:root", "0:0"):
        raise TaskError(
            f"The step runs as {step.user}.",
            file=context / "Dockerfile",
            line=step.line,
            remedy="Build it with --builder docker or --builder buildah.",
        )
    env = {"HOME": "/root", **step.env, "PATH": f"{BUILD}/bin:{step.env['PATH']}"}
    words = " ".join(shlex.quote(f"{key}={value}") for key, value in env.items())
    command = " ".join(shlex.quote(word) for word in step.argv)
    return f"cd {shlex.quote(step.workdir)} || exit 1\nexec env -i {words} {command}\n"


def _copy(step: Copy, context: Path, number: int) -> str:
    lines = ["set -e", f". {BUILD}/place.sh"]
    names = sources(step, context)
    several = len(names) + len(step.inline) > 1
    target = step.target.rstrip("/") + "/" if several else step.target
    tail = " ".join(shlex.quote(word) for word in (target, step.owner, step.mode))
    for name in names:
        source = shlex.quote(posixpath.normpath(f"{BUILD}/context/{name}"))
        if step.unpacks and name.endswith(ARCHIVES):
            quoted = shlex.quote(target)
            lines.append(f"mkdir -p {quoted} && tar -xf {source} -C {quoted}")
        else:
            lines.append(f"place {source} {tail}")
    for name, _ in step.inline:
        lines.append(f"place {BUILD}/inline-{number:03d}/{shlex.quote(name)} {tail}")
    return "\n".join(lines) + "\n"
