from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.rewards.shell import Simple, normalised, simple_commands


@pytest.mark.parametrize(
    ("line", "programs"),
    [
        ("a && b || c; d | e & f", "a b c d e f"),
        ("a\nb", "a b"),
        ("(cd x; ls)", "cd ls"),
        ("FOO=1 env BAR=2 a", "a"),
        ("for i in 1 2; do a $i; done", "a"),
        ("if a; then b; else c; fi", "a b c"),
        ("! a", "a"),
        ("/usr/bin/a", "a"),
        ("./a.sh", "./a.sh"),
        ("a 'b; c' \"d && e\"", "a"),
        ("a b\\;c", "a"),
        ("a # b; c", "a"),
        ("cat <<'EOF' > f\nrm x\nEOF\nb", "cat b"),
        ("cat <<-EOF\n\trm x\n\tEOF\nb", "cat b"),
        ("", ""),
        ("# a", ""),
    ],
)
def test_a_line_is_split_into_its_commands(line: str, programs: str) -> None:
    assert [part.program for part in simple_commands(line)] == programs.split()


@pytest.mark.parametrize(
    ("line", "writes"),
    [
        ("a > f", ("f",)),
        ("a >> f", ("f",)),
        ("a 2> f", ("f",)),
        ("a &> f", ("f",)),
        ("a > f2", ("f2",)),
        ("a 2>&1", ()),
        ("a > /dev/null 2>&1", ()),
        ("a '>' f", ()),
        ("a \\> f", ()),
        ("a < f", ()),
        ("a <<< word", ()),
    ],
)
def test_redirections_are_told_from_arguments(
    line: str, writes: tuple[str, ...]
) -> None:
    (part,) = simple_commands(line)

    assert part.writes == writes


def test_a_line_that_cannot_be_parsed_is_one_command_of_words() -> None:
    assert simple_commands("echo 'a b") == (Simple("echo", ("'a", "b"), ()),)


def test_a_huge_command_is_read_by_its_beginning() -> None:
    body = "x\n" * 10_000

    parts = simple_commands(f"ls; cat > f <<'EOF'\n{body}EOF\necho {'y' * 99_999}")

    assert [part.program for part in parts] == ["ls", "cat", "echo"]
    assert normalised(" a  b " + "y" * 9_999).startswith("a  b y")


@given(st.text(alphabet="ab '\"\\;&|<>()#\n\t$rm-", max_size=40))
def test_no_line_makes_it_fail(line: str) -> None:
    for part in simple_commands(line):
        assert isinstance(part.reads, bool)
        assert isinstance(part.destroys, tuple)
        assert isinstance(part.edits, tuple)


@given(st.text(max_size=40))
def test_normalising_twice_is_normalising_once(line: str) -> None:
    assert normalised(normalised(line)) == normalised(line)


def test_normalising_keeps_what_is_quoted() -> None:
    assert normalised("echo  'a   b'  # c") == "echo 'a   b'"
