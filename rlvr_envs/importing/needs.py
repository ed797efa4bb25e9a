"""What a build needs from outside: packages, the network, other stages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rlvr_envs.importing.plan import Copy, Plan, Run

_SEPARATORS = frozenset({";", "&&", "||", "|", "&", "(", ")", "\n", ";;", "{", "}"})
_KEYWORDS = frozenset("if then else elif do while until ! time { sudo exec".split())  # noqa: SIM905 (words)
_REDIRECTION = re.compile(r"(?:\d*|&)(?:>>?|<)(?:&?(\S*))")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHELLS = frozenset({"sh", "bash", "dash"})

NETWORK_PROGRAMS = frozenset(
    [
        "curl",
        "wget",
        "npm",
        "npx",
        "yarn",
        "pnpm",
        "gem",
        "cargo",
        "rustup",
        "go",
        "lake",
        "elan",
        "opam",
        "cabal",
        "stack",
        "mvn",
        "gradle",
        "conda",
        "mamba",
        "apk",
        "yum",
        "dnf",
        "add-apt-repository",
        "apt-key",
        "svn",
        "hg",
        "rsync",
        "scp",
        "ssh",
        "nix-env",
        "composer",
        "cpan",
        "cpanm",
        "luarocks",
        "julia",
        "dotnet",
    ]
)
"""Programs that a build step calls to fetch something."""

_OPTIONS_WITH_VALUE = frozenset(
    [
        "-i",
        "--index-url",
        "--extra-index-url",
        "-f",
        "--find-links",
        "-t",
        "--target",
        "-o",
        "-c",
        "--constraint",
        "--root",
        "--prefix",
        "--option",
        "--timeout",
        "--retries",
        "--trusted-host",
    ]
)


@dataclass(frozen=True, slots=True)
class Needs:
    """What the steps of a plan ask for.

    Attributes:
        apt: Names of Debian or Ubuntu packages.
        pip: Normalised names of Python packages.
        files: Requirement files that pip reads.
        network: Programs that fetch something else, such as ``curl`` or ``npm``.
        stages: Stages or images that files are copied from.
        user: Whether the build or the container runs as somebody else than root.
    """

    apt: frozenset[str] = frozenset()
    pip: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    network: frozenset[str] = frozenset()
    stages: frozenset[str] = frozenset()
    user: bool = False

    def within(self, *, apt: frozenset[str], pip: frozenset[str]) -> bool:
        """Whether an image with these packages is all that the build needs."""
        outside = self.files or self.network or self.stages
        return not outside and self.apt <= apt and self.pip <= pip

    def missing(self, *, apt: frozenset[str], pip: frozenset[str]) -> tuple[str, ...]:
        """Return what an image with these packages lacks, as ``kind:name``, sorted."""
        rows = (
            ("apt", self.apt - apt),
            ("pip", self.pip - pip),
            ("pip-file", self.files),
            ("network", self.network),
            ("stage", self.stages),
        )
        return tuple(sorted(f"{kind}:{name}" for kind, names in rows for name in names))


def needs(plan: Plan) -> Needs:
    """Return what the steps of a plan need, read from their text alone."""
    rows = [
        row
        for step in plan.steps
        if isinstance(step, Run)
        for command in commands(step)
        for row in _of_command(command)
    ]
    rows += [
        row for step in plan.steps if isinstance(step, Copy) for row in _of_copy(step)
    ]
    runs_as = {step.user for step in plan.steps if isinstance(step, Run)} | {plan.user}
    return Needs(
        apt=_names(rows, "apt"),
        pip=_names(rows, "pip"),
        files=_names(rows, "file"),
        network=_names(rows, "network"),
        stages=_names(rows, "stage"),
        user=not runs_as <= {"", "root", "0", "root:root", "0:0"},
    )


def commands(run: Run) -> tuple[tuple[str, ...], ...]:
    """Split a step into its simple commands: assignments and keywords removed."""
    if not run.script:
        return _inner(run.argv)
    lexer = shlex.shlex(_joined(run.script), posix=True, punctuation_chars=";|&()\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        words = run.script.split()
    return tuple(_simple(words))


def _joined(script: str) -> str:
    return script.replace("\\\n", " ")


def _simple(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    current: list[str] = []
    for word in [*words, ";"]:
        if word in _SEPARATORS or set(word) <= set(";|&()\n"):
            stripped = _strip(_without_redirections(current))
            if stripped:
                yield from _inner(stripped)
            current = []
        else:
            current.append(word)


def _without_redirections(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        match = _REDIRECTION.fullmatch(word)
        if not skip and match is None:
            kept.append(word)
        skip = match is not None and not match[1]
    return kept


def _strip(words: Sequence[str]) -> tuple[str, ...]:
    position = 0
    while position < len(words) and (
        words[position] in _KEYWORDS or _ASSIGNMENT.match(words[position])
    ):
        position += 1
    return tuple(words[position:])


def _inner(words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Look into ``bash -c '...'``."""
    program = words[0].rsplit("/", 1)[-1] if words else ""
    if (
        program in _SHELLS
        and len(words) > 2
        and words[1].startswith("-")
        and (words[1].endswith("c"))
    ):
        run = Run(words, words[2], "/", "", {}, 0)
        return commands(run)
    return (words,) if words else ()


Row = tuple[str, str]


def _of_command(words: tuple[str, ...]) -> Iterator[Row]:
    program = words[0].rsplit("/", 1)[-1]
    arguments = words[1:]
    if program in ("apt-get", "apt", "aptitude"):
        yield from (("apt", name) for name in _installed(arguments))
    elif _is_pip(program, arguments):
        yield from _of_pip(arguments)
    elif program == "git" and {"clone", "fetch", "pull"} & set(arguments):
        yield ("network", "git")
    elif program in ("R", "Rscript") or program in NETWORK_PROGRAMS:
        yield ("network", program)


def _installed(arguments: Sequence[str]) -> Iterator[str]:
    if "install" not in arguments and "build-dep" not in arguments:
        return
    for word in _positional(arguments):
        if word not in ("install", "build-dep") and ">" not in word:
            yield re.split(r"[=/:]", word, maxsplit=1)[0]


def _is_pip(program: str, arguments: Sequence[str]) -> bool:
    if re.fullmatch(r"pip[0-9.]*", program):
        return True
    python = re.fullmatch(r"python[0-9.]*", program)
    return bool(python) and tuple(arguments[:2]) == ("-m", "pip")


def _of_pip(arguments: Sequence[str]) -> Iterator[Row]:
    words = list(arguments[2:] if tuple(arguments[:2]) == ("-m", "pip") else arguments)
    if not words or words[0] not in ("install", "download", "wheel"):
        return
    words = words[1:]
    for index, word in enumerate(words):
        if word in ("-r", "--requirement") and index + 1 < len(words):
            yield ("file", words[index + 1])
            words[index + 1] = "--"
    for word in _positional(words):
        if "/" in word or word.startswith((".", "git+")):
            yield ("network", "pip")
        elif match := _REQUIREMENT.match(word):
            yield ("pip", normalised(match[0]))


def _positional(words: Sequence[str]) -> Iterator[str]:
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in _OPTIONS_WITH_VALUE:
            skip = True
        elif not word.startswith("-") and not re.match(r"\d?>|<", word):
            yield word


def _of_copy(step: Copy) -> Iterator[Row]:
    if step.stage:
        yield ("stage", step.stage)
    for source in step.sources:
        if re.match(r"[a-z]+://|git@", source):
            yield ("network", "ADD")


def _names(rows: Iterable[Row], kind: str) -> frozenset[str]:
    return frozenset(name for row, name in rows if row == kind)


def normalised(name: str) -> str:
    """Return the name of a Python package as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
