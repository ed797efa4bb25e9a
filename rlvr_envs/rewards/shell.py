"""What a shell command is about, as far as its text tells.

Only path rules use this. They are bounded and are no evidence: a command can hide
what it does, and then it merely escapes a penalty or a credit.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


READERS = _words(
    """awk basename cat cd column cmp cut date df diff dirname du echo egrep env false
    fgrep file find getent grep head hexdump hostname id jq less ls lsof md5sum more nl
    od printenv printf ps pwd readlink realpath rg sha256sum sort ss stat strings tac
    sed seq tail test tr tree true type uname uniq wc whereis which whoami xxd
    ["""
)
"""Programs that look; with an output redirection they write all the same."""

TESTERS = _words("pytest py.test tox nox ctest unittest jest mocha rspec")
"""Programs that run tests."""

TEST_WORDS = _words("test check tests pytest unittest nextest vet")
"""Arguments that make a build tool or an interpreter run tests."""

RUNNERS = _words(
    """python python3 node ruby perl bash sh make cargo go npm yarn pnpm mvn gradle
    java gcc cc g++ rustc"""
)
"""Programs that build or run code, and so exercise what was edited."""

DESTROYERS = _words("rm rmdir shred truncate dd mkfs wipefs unlink")
"""Programs whose effect cannot be taken back."""

SOURCES = _words(
    """.py .pyi .c .h .cc .cpp .hpp .rs .go .java .js .ts .rb .pl .sh .sql .lua
    .php"""
)
"""Suffixes of files that tests can exercise."""

READ_CHARS = 4096
"""How much of a command is parsed, here-documents left out: parsing costs time."""

SEEN_CHARS = 65_536
"""How much of a command is searched for here-documents."""

_BREAK = re.compile(r"^[;&|\n()]+$")
_WRITES = re.compile(r"^(>|>>|>\||&>|&>>)$")
_COPIES = re.compile(r"\d*>&\d+|\d*>&-")
_NUMBERED = re.compile(r"(?<![\w.])\d+(?=>)")
_PREFIXES = _words(
    """sudo env time nohup command exec xargs if then else elif while until do !
    {"""
)
_NEUTRAL = _words("for case esac done fi }")
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.", re.DOTALL)
_OPERATORS = ";&|<>()\n"
_SHIELD = {ord(sign): chr(0xE000 + index) for index, sign in enumerate(_OPERATORS)}
_UNSHIELD = {ord(held): chr(sign) for sign, held in _SHIELD.items()}
_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
_DELETIONS = DESTROYERS | {"-delete"}
_GIT_READS = frozenset({"status", "log", "diff", "show", "branch", "blame", "ls-files"})


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command of a line.

    Attributes:
        program: Its name without the folder; empty for a bare redirection.
        arguments: Without redirections.
        writes: Targets of output redirections, ``/dev`` ones left out.
    """

    program: str
    arguments: tuple[str, ...]
    writes: tuple[str, ...]

    @property
    def operands(self) -> tuple[str, ...]:
        """Arguments that are not options."""
        return tuple(word for word in self.arguments if not word.startswith("-"))

    @property
    def reads(self) -> bool:
        """Whether it only looks."""
        if self.edits or self.destroys:
            return False
        if self.program == "git":
            return bool(self.operands) and self.operands[0] in _GIT_READS
        return self.program in READERS

    @property
    def tests(self) -> bool:
        """Whether it runs tests."""
        if self.program in TESTERS:
            return True
        return self.program in RUNNERS and not TEST_WORDS.isdisjoint(self.arguments)

    @property
    def exercises(self) -> bool:
        """Whether it tests, builds or runs code."""
        if self.tests or self.program in RUNNERS:
            return True
        return self.program.startswith("./") or is_source(self.program)

    @property
    def destroys(self) -> tuple[str, ...]:
        """What it would destroy; empty for a harmless command."""
        if self.program in DESTROYERS:
            return tuple(word.removeprefix("of=") for word in self._doomed) or (".",)
        if self.program == "git" and self._git_discards:
            return (".",)
        if self.program == "find" and not _DELETIONS.isdisjoint(self.arguments):
            return self.operands[:1] or (".",)
        return ()

    @property
    def edits(self) -> tuple[str, ...]:
        """Files that it writes by redirection or in place."""
        if self.program == "tee":
            return (*self.writes, *self.operands)
        if self._edits_in_place:
            return (*self.writes, *self.operands[-1:])
        return self.writes

    @property
    def _doomed(self) -> tuple[str, ...]:
        if self.program == "dd":
            return tuple(word for word in self.operands if word.startswith("of="))
        return self.operands

    @property
    def _git_discards(self) -> bool:
        words = set(self.arguments)
        hard = "reset" in words and "--hard" in words
        clean = "clean" in words and any(
            "f" in word for word in words if word[:1] == "-"
        )
        return hard or clean

    @property
    def _edits_in_place(self) -> bool:
        return self.program in {"sed", "perl"} and any(
            re.match(r"^-[a-zA-Z]*i", word) or word.startswith("--in-place")
            for word in self.arguments
        )


def simple_commands(line: str) -> tuple[Simple, ...]:
    """Split a line into its simple commands, here-documents left out.

    What cannot be parsed is one command of blank-separated words. Beyond
    `READ_CHARS` of what is left nothing is read.
    """
    return _commands(line[:SEEN_CHARS])


def split_words(line: str) -> list[str]:
    """Split a line as a shell would, comments left out; by blanks if it cannot be.

    Beyond `READ_CHARS` a line is split by blanks: parsing costs time.
    """
    return list(_words_of(line)) if len(line) <= READ_CHARS else line.split()


def normalised(line: str) -> str:
    """Return a command without comments and surplus blanks; strings are kept.

    One of more than `READ_CHARS` keeps both, but at its ends.
    """
    return line.strip() if len(line) > READ_CHARS else _normalised(line)


@lru_cache(maxsize=256)
def _normalised(line: str) -> str:
    words, parsed = _parsed_words(line)
    return shlex.join(words) if parsed else " ".join(words)


def _words_of(line: str) -> tuple[str, ...]:
    return _parsed_words(line)[0]


@lru_cache(maxsize=256)
def _parsed_words(line: str) -> tuple[tuple[str, ...], bool]:
    """Return a line's words, and whether it could be parsed; once for all rules."""
    try:
        return tuple(shlex.split(line, comments=True)), True
    except ValueError:
        return tuple(line.split()), False


def is_source(path: str) -> bool:
    """Whether a file is one that tests can exercise."""
    return posixpath.splitext(path)[1] in SOURCES


@lru_cache(maxsize=256)
def _commands(line: str) -> tuple[Simple, ...]:
    """Read each command once, though several rules ask."""
    kept = _without_heredocs(line)[:READ_CHARS]
    read = (_read(words) for words in _split(kept))
    return tuple(command for command in read if command)


def _without_heredocs(line: str) -> str:
    kept, end = [], ""
    for row in line.split("\n"):
        if end:
            end = "" if row.strip() == end else end
            continue
        opened = re.search(r"<<-?\s*['\"]?([A-Za-z_]\w*)['\"]?", row)
        end = opened.group(1) if opened else ""
        kept.append(row[: opened.start()] + row[opened.end() :] if opened else row)
    return "\n".join(kept)


def _split(line: str) -> list[list[str]]:
    """Return the words of each simple command, redirections still among them."""
    shielded = _QUOTED.sub(lambda match: match.group().translate(_SHIELD), line)
    plain = _NUMBERED.sub("", _COPIES.sub("", shielded))
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:
        return [line.split()]
    commands: list[list[str]] = [[]]
    for token in tokens:
        if _BREAK.match(token) and not _WRITES.match(token):
            commands.append([])
        else:
            commands[-1].append(token)
    return commands


def _read(words: list[str]) -> Simple | None:
    arguments, writes = _redirected(words)
    while arguments and (arguments[0] in _PREFIXES or _ASSIGNMENT.match(arguments[0])):
        arguments.pop(0)
    if not arguments or arguments[0] in _NEUTRAL:
        return Simple("", (), writes) if writes else None
    program = arguments[0]
    name = program if program.startswith("./") else PurePosixPath(program).name
    return Simple(name, tuple(arguments[1:]), writes)


def _redirected(words: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Part a command's words from the files that it writes to."""
    arguments: list[str] = []
    writes: list[str] = []
    rest = iter(words)
    for word in rest:
        if _WRITES.match(word):
            writes.append(next(rest, "").translate(_UNSHIELD))
        elif set(word) == {"<"}:
            next(rest, "")
        else:
            arguments.append(word.translate(_UNSHIELD))
    kept = (path for path in writes if path and not path.startswith("/dev/"))
    return arguments, tuple(kept)
