"""Read a Dockerfile: instructions, heredocs, continuations and variables.

The libraries on PyPI either know no heredocs or need a Go toolchain, and what an
import needs is small: the steps in order, with their line numbers.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

KEYWORDS = frozenset(
    [
        "ADD",
        "ARG",
        "CMD",
        "COPY",
        "ENTRYPOINT",
        "ENV",
        "EXPOSE",
        "FROM",
        "HEALTHCHECK",
        "LABEL",
        "MAINTAINER",
        "ONBUILD",
        "RUN",
        "SHELL",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    ]
)
HEREDOC_KEYWORDS = frozenset({"RUN", "COPY", "ADD"})

_DIRECTIVE = re.compile(r"#\s*([A-Za-z]+)\s*=\s*(\S+)\s*$")
_HEREDOC = re.compile(r"(?<!\S)\d*<<(-?)(['\"]?)([A-Za-z_]\w*)\2(?=[\s;|&>)]|$)")
_FLAG = re.compile(r"--([a-z][a-z-]*)(?:=(\S*))?\s+")
_VARIABLE = re.compile(
    r"\\(?P<escaped>\$)|\$(?:(?P<plain>[A-Za-z_]\w*)"
    r"|\{(?P<name>[A-Za-z_]\w*)(?::(?P<operator>[-+])(?P<word>[^}]*))?\})"
)


class DockerfileError(ValueError):
    """A Dockerfile that Docker's own parser would refuse, too."""

    def __init__(self, message: str, *, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Heredoc:
    """Text given within the Dockerfile.

    Attributes:
        opener: As written, such as ``<<-'EOF'``.
        expands: Whether variables in the body are substituted (no quotes).
    """

    opener: str
    name: str
    body: str
    expands: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, its continuation lines joined.

    Attributes:
        line: Where it begins, from 1.
        value: What follows the keyword and its flags.
    """

    keyword: str
    value: str
    line: int
    flags: Mapping[str, str] = field(default_factory=dict)
    heredocs: tuple[Heredoc, ...] = ()

    @property
    def exec_form(self) -> tuple[str, ...] | None:
        """The JSON array of an exec form, or None for the shell form."""
        if not self.value.startswith("["):
            return None
        try:
            words = json.loads(self.value)
        except json.JSONDecodeError:
            return None
        strings = isinstance(words, list) and all(isinstance(w, str) for w in words)
        return tuple(words) if strings else None


def substitute(text: str, variables: Mapping[str, str]) -> str:
    r"""Replace ``$NAME``, ``${NAME}``, ``${NAME:-word}``, ``${NAME:+word}``.

    ``\$`` is a plain dollar sign; an unknown name is empty.
    """

    def replace(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        value = variables.get(match["plain"] or match["name"], "")
        if match["operator"] == "-":
            return value or match["word"]
        if match["operator"] == "+":
            return match["word"] if value else ""
        return value

    return _VARIABLE.sub(replace, text)


def parse(text: str) -> tuple[Instruction, ...]:
    """Return the instructions of a Dockerfile, in order.

    Raises:
        DockerfileError: If a line is no instruction, or a heredoc does not end.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    escape = _escape_character(lines)
    found = tuple(_instructions(lines, escape))
    if not any(item.keyword == "FROM" for item in found):
        raise DockerfileError("There is no FROM instruction.", line=1)
    return found


def pairs(value: str, *, line: int) -> tuple[tuple[str, str], ...]:
    """Split the value of ENV, ARG or LABEL into names and values, quotes removed.

    Raises:
        DockerfileError: If a word of the ``NAME=value`` form has no ``=``.
    """
    first, _, rest = value.partition(" ")
    if "=" not in first and rest.strip():
        return ((first, rest.strip()),)
    result = []
    for word in split_words(value, line=line):
        name, separator, content = word.partition("=")
        if not separator:
            raise DockerfileError(f"{word!r} is not of the form NAME=value.", line=line)
        result.append((name, content))
    return tuple(result)


def split_words(value: str, *, line: int) -> list[str]:
    """Split at blanks as a shell does; quotes are removed.

    Raises:
        DockerfileError: If a quote does not end.
    """
    try:
        return shlex.split(value.replace(r"\$", r"\\$"))
    except ValueError as error:
        raise DockerfileError(f"Cannot be split into words: {error}.", line=line) from (
            error
        )


def _escape_character(lines: list[str]) -> str:
    for line in lines:
        match = _DIRECTIVE.match(line)
        if match is None:
            return "\\"
        if match[1].lower() == "escape":
            return match[2]
    return "\\"


def _instructions(lines: list[str], escape: str) -> Iterator[Instruction]:
    position = 0
    while position < len(lines):
        start = position
        if _is_blank(lines[position]):
            position += 1
            continue
        logical, position = _join(lines, position, escape)
        keyword, _, rest = logical.lstrip().partition(" ")
        keyword = keyword.upper()
        if keyword not in KEYWORDS:
            raise DockerfileError(f"Unknown instruction {keyword!r}.", line=start + 1)
        flags, value = _flags(rest)
        heredocs: tuple[Heredoc, ...] = ()
        if keyword in HEREDOC_KEYWORDS and not value.startswith("["):
            heredocs, position = _heredocs(value, lines, position, start + 1)
        yield Instruction(keyword, value, start + 1, flags, heredocs)


def _is_blank(line: str) -> bool:
    stripped = line.strip()
    return not stripped or stripped.startswith("#")


def _join(lines: list[str], position: int, escape: str) -> tuple[str, int]:
    """Join continuation lines; comments and empty lines between them vanish."""
    parts: list[str] = []
    while position < len(lines):
        line = lines[position]
        position += 1
        if parts and _is_blank(line):
            continue
        stripped = line.rstrip()
        if not stripped.endswith(escape):
            parts.append(stripped)
            break
        parts.append(stripped[: -len(escape)])
    return "".join(parts).replace("\t", " ", 1).strip(), position


def _flags(rest: str) -> tuple[dict[str, str], str]:
    flags: dict[str, str] = {}
    rest = rest.strip()
    while match := _FLAG.match(rest):
        flags[match[1]] = match[2] or ""
        rest = rest[match.end() :]
    return flags, rest


def _heredocs(
    value: str, lines: list[str], position: int, line: int
) -> tuple[tuple[Heredoc, ...], int]:
    found = []
    for match in _HEREDOC.finditer(value):
        strip_tabs, quote, name = match.groups()
        body: list[str] = []
        while True:
            if position >= len(lines):
                raise DockerfileError(f"The heredoc {name} does not end.", line=line)
            text = lines[position].lstrip("\t") if strip_tabs else lines[position]
            position += 1
            if text == name:
                break
            body.append(text + "\n")
        found.append(Heredoc(match[0], name, "".join(body), not quote))
    return tuple(found), position
