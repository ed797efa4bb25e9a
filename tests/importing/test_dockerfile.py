"""A Dockerfile is read as Docker reads it, and refused with its line where not."""

from __future__ import annotations

import pytest

from rlvr_envs.importing.dockerfile import DockerfileError, pairs, parse, substitute


def test_continuation_lines_join_and_comments_between_them_vanish() -> None:
    (_, run) = parse("FROM a\nRUN one && \\\n# why\n\n    two\n")

    assert run.value.split() == ["one", "&&", "two"]
    assert run.line == 2


def test_another_escape_character_can_be_named() -> None:
    (_, run) = parse("# escape=`\nFROM a\nRUN one `\n  two\n")

    assert run.value.split() == ["one", "two"]


@pytest.mark.parametrize("opener", ["<<EOF", "<<'EOF'", '<<"EOF"'])
def test_a_heredoc_is_no_instruction(opener: str) -> None:
    (_, run, last) = parse(
        f"FROM a\nRUN cat {opener} > /x\nFROM b\n# kept\nEOF\nUSER u\n"
    )

    assert run.heredocs[0].body == "FROM b\n# kept\n"
    assert run.heredocs[0].expands is (opener == "<<EOF")
    assert last.keyword == "USER"


def test_tabs_before_a_dashed_heredoc_are_dropped() -> None:
    (_, copy) = parse("FROM a\nCOPY <<-EOF /x\n\ttext\n\tEOF\n")

    assert copy.heredocs[0].body == "text\n"


@pytest.mark.parametrize("value", ["echo $((1<<COUNT))", "cat <<<word", 'echo "<<EOF"'])
def test_a_shift_a_here_string_and_a_quoted_word_are_no_heredoc(value: str) -> None:
    (_, run) = parse(f"FROM a\nRUN {value}\n")

    assert run.heredocs == ()


def test_flags_stand_apart_from_the_value() -> None:
    (_, copy) = parse("FROM a\nCOPY --chown=1:2 --chmod=755 x /y\n")

    assert copy.flags == {"chown": "1:2", "chmod": "755"}
    assert copy.value == "x /y"


def test_an_exec_form_is_a_list_of_words() -> None:
    (_, run) = parse('FROM a\nRUN ["ls", "-l a"]\n')

    assert run.exec_form == ("ls", "-l a")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("FROM a\nRUN x\nimport os\n", 3),
        ("FROM a\nRUN cat << 'EOF'\nbody\nEOF\n", 3),
        ("FROM a\nRUN cat <<EOF\nbody\n", 2),
        ("RUN x\n", 1),
    ],
)
def test_what_docker_refuses_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(DockerfileError) as caught:
        parse(text)

    assert caught.value.line == line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A/x", "1/x"),
        ("${A}y", "1y"),
        ("${NONE:-d}", "d"),
        ("${A:-d}", "1"),
        ("${A:+set}", "set"),
        ("${NONE:+set}", ""),
        (r"\$A", "$A"),
        ("$NONE.", "."),
    ],
)
def test_variables_are_substituted(text: str, expected: str) -> None:
    assert substitute(text, {"A": "1"}) == expected


def test_both_forms_of_a_pair_are_read() -> None:
    assert pairs("A one two", line=1) == (("A", "one two"),)
    assert pairs('A=1 B="two words"', line=1) == (("A", "1"), ("B", "two words"))
