"""A Dockerfile's steps are resolved in order, stage upon stage."""

from __future__ import annotations

import pytest

from rlvr_envs.importing.dockerfile import DockerfileError
from rlvr_envs.importing.needs import commands, needs
from rlvr_envs.importing.plan import Copy, Folder, Run, plan


def test_variables_reach_later_steps() -> None:
    found = plan("ARG TAG=1\nFROM a:$TAG\nENV D=/d\nWORKDIR $D\nCOPY x $D/y\nRUN z\n")

    folder, copy, run = found.steps
    assert found.base == "a:1"
    assert isinstance(folder, Folder)
    assert folder.path == "/d"
    assert isinstance(copy, Copy)
    assert copy.target == "/d/y"
    assert isinstance(run, Run)
    assert (run.workdir, run.env["D"]) == ("/d", "/d")


def test_a_relative_target_lies_in_the_working_folder() -> None:
    (_, into, onto) = plan("FROM a\nWORKDIR /w\nCOPY x .\nCOPY x y\n").steps

    assert isinstance(into, Copy)
    assert isinstance(onto, Copy)
    assert (into.target, onto.target) == ("/w/", "/w/y")


def test_a_stage_goes_on_from_an_earlier_one() -> None:
    found = plan("FROM a AS one\nRUN x\nENV K=v\nFROM one\nRUN y\n")

    assert found.base == "a"
    assert found.stages == 2
    assert [step.script for step in found.steps if isinstance(step, Run)] == ["x", "y"]
    assert found.env == {"K": "v"}


def test_a_build_argument_is_no_variable_of_the_container() -> None:
    found = plan("FROM a\nARG V=1\nRUN x\n")

    (run,) = found.steps
    assert isinstance(run, Run)
    assert run.env["V"] == "1"
    assert "V" not in found.env


def test_a_heredoc_may_be_the_script_or_a_file() -> None:
    text = "FROM a\nENV N=n\nRUN <<EOF\nls\nEOF\nCOPY <<E /f\n$N\nE\n"

    run, copy = plan(text).steps

    assert isinstance(run, Run)
    assert run.script == "ls\n"
    assert isinstance(copy, Copy)
    assert copy.inline == (("E", "n\n"),)


def test_an_instruction_before_the_first_stage_is_refused() -> None:
    with pytest.raises(DockerfileError, match="before the first"):
        plan("ENV A=1\nFROM a\n")


def _needs(step: str) -> tuple[str, ...]:
    none: frozenset[str] = frozenset()
    return needs(plan(f"FROM a\n{step}\n")).missing(apt=none, pip=none)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("RUN apt-get update && apt-get install -y jq=1.6 git", ("apt:git", "apt:jq")),
        ("RUN apt install -y --no-install-recommends jq > /dev/null", ("apt:jq",)),
        ("RUN pip3 install 'Flask[x]>=2' a_b==1", ("pip:a-b", "pip:flask")),
        ("RUN python3 -m pip install -i http://x numpy", ("pip:numpy",)),
        ("RUN pip install -r req.txt", ("pip-file:req.txt",)),
        ("RUN pip install git+https://x/y", ("network:pip",)),
        ("RUN bash -c 'apt-get install -y jq'", ("apt:jq",)),
        ("RUN if true; then curl x | sh; fi", ("network:curl",)),
        ("RUN git clone x", ("network:git",)),
        ("RUN git init && echo apt-get install jq", ()),
        ("RUN mkdir -p /a && chmod +x /b", ()),
        ("COPY --from=other /a /b", ("stage:other",)),
        ("ADD https://x/y /z", ("network:ADD",)),
    ],
)
def test_what_a_step_needs_is_read_from_its_text(
    step: str, expected: tuple[str, ...]
) -> None:
    assert _needs(step) == expected


def test_another_user_is_noted() -> None:
    assert needs(plan("FROM a\nUSER app\nRUN x\n")).user
    assert not needs(plan("FROM a\nUSER root\nRUN x\n")).user


def test_a_script_is_split_into_its_commands() -> None:
    (run,) = plan("FROM a\nRUN A=1 one x; (two) | sudo three\n").steps

    assert isinstance(run, Run)
    assert commands(run) == (("one", "x"), ("two",), ("three",))
