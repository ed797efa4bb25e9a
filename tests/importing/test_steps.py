"""Build steps copy and check as a builder would."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rlvr_envs.errors import TaskError
from rlvr_envs.importing.plan import Plan, plan
from rlvr_envs.importing.steps import recipe
from tests.importing.making import write


@pytest.fixture
def context(tmp_path: Path) -> Path:
    return write(
        tmp_path / "context",
        {"a.txt": "a", "b.txt": "b", "sub/c.txt": "c", "sub/.hidden": "h"},
    )


def _plan(*steps: str) -> Plan:
    return plan("\n".join(["FROM ubuntu", *steps, ""]))


def _built(found: Plan, context: Path, root: Path) -> Path:
    """Run the copying steps below a folder, in place of a sandbox's root."""
    made = recipe(found, context)

    def moved(text: str) -> str:
        return text.replace("/.build", f"{root}/.build").replace("/out", f"{root}/out")

    for spec in made.files:
        path = root / spec.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if spec.kind == "dir":
            path.mkdir(exist_ok=True)
        elif path.suffix == ".sh":
            path.write_text(moved(spec.data.decode()))
        else:
            path.write_bytes(spec.data)
    for command in made.setup[:-1]:
        subprocess.run(["/bin/sh", moved(command[1])], check=True)
    return root / "out"


def _listing(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("COPY a.txt /out/x", ["x"]),
        ("COPY a.txt /out/x/", ["x/a.txt"]),
        ("COPY a.txt b.txt /out/", ["a.txt", "b.txt"]),
        ("COPY *.txt /out/", ["a.txt", "b.txt"]),
        ("COPY sub /out/s", ["s/.hidden", "s/c.txt"]),
        ("COPY sub/ /out/", [".hidden", "c.txt"]),
        ("COPY sub/c.txt /out", ["c.txt"]),
        ("COPY <<EOF /out/n\nline\nEOF", ["n"]),
    ],
)
def test_files_come_where_copy_puts_them(
    step: str, expected: list[str], context: Path, tmp_path: Path
) -> None:
    found = _plan("RUN mkdir -p /out", step)

    out = _built(found, context, tmp_path / "root")

    assert _listing(out) == expected


def test_a_mode_is_given_to_what_is_copied(context: Path, tmp_path: Path) -> None:
    out = _built(_plan("COPY --chmod=711 a.txt /out/x"), context, tmp_path / "root")

    assert (out / "x").stat().st_mode & 0o777 == 0o711


@pytest.mark.parametrize("source", ["none", "../secret", "*.none"])
def test_a_source_outside_the_context_is_refused(source: str, context: Path) -> None:
    (context.parent / "secret").write_text("s")

    with pytest.raises(TaskError) as caught:
        recipe(_plan(f"COPY {source} /out"), context)

    assert caught.value.line == 2


def test_only_what_is_copied_is_packed(context: Path) -> None:
    made = recipe(_plan("COPY a.txt /out/"), context)

    packed = [spec.path for spec in made.files if "/context/" in spec.path]
    assert packed == ["/.build/context/a.txt"]


@pytest.mark.parametrize(
    ("shim", "arguments", "status"),
    [
        ("pip3", ["install", "pytest==8.4.1"], 0),
        ("pip3", ["install", "no-such-package-here"], 1),
        ("pip3", ["install", "-r", "x.txt"], 1),
        ("pip3", ["cache", "purge"], 0),
        ("apt-get", ["update"], 0),
        ("apt-get", ["install", "-y", "python3-pip"], 0),
        ("apt-get", ["install", "-y", "no-such-package"], 100),
    ],
)
def test_a_shim_says_whether_the_image_has_it(
    shim: str, arguments: list[str], status: int, context: Path, tmp_path: Path
) -> None:
    (spec,) = (
        s for s in recipe(_plan(), context).files if s.path.endswith(f"/bin/{shim}")
    )
    program = tmp_path / shim
    text = spec.data.decode()
    if shim == "pip3":
        import sys  # noqa: PLC0415 (stands in for the image's Python)

        text = text.replace("#!/usr/bin/python3", f"#!{sys.executable}")
    program.write_text(text)
    program.chmod(0o755)

    done = subprocess.run([program, *arguments], capture_output=True, check=False)

    assert done.returncode == status, done.stderr
