"""What a Dockerfile does, step by step, with every variable resolved."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from rlvr_envs.importing.dockerfile import (
    DockerfileError,
    Heredoc,
    Instruction,
    pairs,
    parse,
    split_words,
    substitute,
)

DEFAULT_SHELL = ("/bin/sh", "-c")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Run:
    """A command of the build.

    Attributes:
        argv: The whole command: a shell with its script, or an exec form.
        script: The script of a shell form; empty for an exec form.
        stdin: Body of a heredoc that is the script itself.
    """

    argv: tuple[str, ...]
    script: str
    workdir: str
    user: str
    env: Mapping[str, str]
    line: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Files from the build context, from a heredoc, or from another stage.

    Attributes:
        sources: As written, relative to the context; may hold wildcards.
        target: Absolute; ends in ``/`` if it must be a folder.
        inline: File name and body of each heredoc.
        stage: Name or number of another stage or image; empty for the context.
        unpacks: Whether it is an ADD, which unpacks local archives.
    """

    sources: tuple[str, ...]
    target: str
    line: int
    owner: str = ""
    mode: str = ""
    inline: tuple[tuple[str, str], ...] = ()
    stage: str = ""
    unpacks: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A WORKDIR: made if it is missing."""

    path: str
    line: int


Step = Run | Copy | Folder


@dataclass(frozen=True, slots=True)
class Plan:
    """The last stage of a Dockerfile (with the stages that it builds upon).

    Attributes:
        base: Image of the first FROM in the chain.
        stages: How many FROM instructions there are.
        user: Name or id that a container runs as; empty means root.
    """

    base: str
    stages: int
    steps: tuple[Step, ...]
    env: Mapping[str, str]
    workdir: str
    user: str


@dataclass(slots=True)
class _Stage:
    """What is known while the instructions of one stage are walked."""

    base: str
    env: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = ""
    shell: tuple[str, ...] = DEFAULT_SHELL
    steps: list[Step] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        return {"PATH": DEFAULT_PATH, **self.arguments, **self.env}

    def child(self) -> _Stage:
        """Return a stage that goes on from here; build arguments end here."""
        return _Stage(
            base=self.base,
            env=dict(self.env),
            workdir=self.workdir,
            user=self.user,
            shell=self.shell,
            steps=list(self.steps),
        )


def plan(text: str) -> Plan:
    """Resolve a Dockerfile.

    Raises:
        DockerfileError: If Docker would refuse the file.
    """
    instructions = parse(text)
    outer: dict[str, str] = {}
    stages: dict[str, _Stage] = {}
    current: _Stage | None = None
    count = 0
    for item in instructions:
        if item.keyword == "FROM":
            current, name = _open_stage(item, outer, stages)
            stages[str(count)] = current
            if name:
                stages[name] = current
            count += 1
        elif current is None:
            _before_stages(item, outer)
        else:
            _apply(item, current, outer)
    if current is None:
        raise DockerfileError("There is no FROM instruction.", line=1)
    return Plan(
        base=current.base,
        stages=count,
        steps=tuple(current.steps),
        env={**current.env},
        workdir=current.workdir,
        user=current.user,
    )


def _open_stage(
    item: Instruction, outer: Mapping[str, str], stages: Mapping[str, _Stage]
) -> tuple[_Stage, str]:
    words = substitute(item.value, outer).split()
    named = len(words) == 3 and words[1].lower() == "as"
    if not words or (len(words) > 1 and not named):
        raise DockerfileError(
            "FROM needs an image, and perhaps AS name.", line=item.line
        )
    parent = stages.get(words[0].lower())
    stage = parent.child() if parent else _Stage(base=words[0])
    return stage, words[2].lower() if named else ""


def _before_stages(item: Instruction, outer: dict[str, str]) -> None:
    if item.keyword != "ARG":
        raise DockerfileError(
            f"{item.keyword} stands before the first FROM.", line=item.line
        )
    _argument(item, outer, {})


def _argument(
    item: Instruction, into: dict[str, str], inherited: Mapping[str, str]
) -> None:
    for word in split_words(item.value, line=item.line):
        name, given, default = word.partition("=")
        value = substitute(default, into) if given else inherited.get(name, "")
        into[name] = value


def _apply(item: Instruction, stage: _Stage, outer: Mapping[str, str]) -> None:
    if item.keyword == "ARG":
        _argument(item, stage.arguments, outer)
    elif item.keyword in _HANDLERS:
        _HANDLERS[item.keyword](item, stage)


def _env(item: Instruction, stage: _Stage) -> None:
    known = stage.variables
    for name, value in pairs(item.value, line=item.line):
        stage.env[name] = substitute(value, known)


def _workdir(item: Instruction, stage: _Stage) -> None:
    path = substitute(item.value.strip("\"'"), stage.variables)
    stage.workdir = _absolute(path, stage.workdir)
    stage.steps.append(Folder(stage.workdir, item.line))


def _user(item: Instruction, stage: _Stage) -> None:
    stage.user = substitute(item.value, stage.variables)


def _shell(item: Instruction, stage: _Stage) -> None:
    if not item.exec_form:
        raise DockerfileError("SHELL needs a JSON array.", line=item.line)
    stage.shell = item.exec_form


def _run(item: Instruction, stage: _Stage) -> None:
    script = item.value
    if item.heredocs:
        script = _script(item.value, item.heredocs)
    argv = item.exec_form or (*stage.shell, script)
    stage.steps.append(
        Run(
            argv=argv,
            script="" if item.exec_form else script,
            workdir=stage.workdir,
            user=stage.user,
            env=stage.variables,
            line=item.line,
        )
    )


def _script(value: str, heredocs: tuple[Heredoc, ...]) -> str:
    """Return the script of a RUN: the body itself, or a command that reads it."""
    first = heredocs[0]
    if value.strip() == first.opener:
        return first.body
    bodies = "".join(f"{item.body}{item.name}\n" for item in heredocs)
    return f"{value}\n{bodies}"


def _copy(item: Instruction, stage: _Stage) -> None:
    words = list(item.exec_form or ())
    if not words:
        words = split_words(item.value, line=item.line)
    known = stage.variables
    words = [substitute(word, known) for word in words]
    openers = {
        substitute(doc.opener.replace("'", "").replace('"', ""), known): doc
        for doc in item.heredocs
    }
    if len(words) < 2:
        raise DockerfileError(
            f"{item.keyword} needs a source and a target.", line=item.line
        )
    *sources, target = words
    inline = tuple(
        (doc.name, substitute(doc.body, known) if doc.expands else doc.body)
        for word in sources
        if (doc := openers.get(word)) is not None
    )
    stage.steps.append(
        Copy(
            sources=tuple(word for word in sources if word not in openers),
            target=_target(target, stage.workdir),
            line=item.line,
            owner=substitute(item.flags.get("chown", ""), known),
            mode=item.flags.get("chmod", ""),
            inline=inline,
            stage=item.flags.get("from", ""),
            unpacks=item.keyword == "ADD",
        )
    )


def _target(target: str, workdir: str) -> str:
    folder = target.endswith("/") or target in (".", "..")
    path = _absolute(target, workdir)
    return path.rstrip("/") + "/" if folder else path


def _absolute(path: str, workdir: str) -> str:
    return posixpath.normpath(posixpath.join(workdir, path or "."))


_HANDLERS = {
    "ENV": _env,
    "WORKDIR": _workdir,
    "USER": _user,
    "SHELL": _shell,
    "RUN": _run,
    "COPY": _copy,
    "ADD": _copy,
}
