from __future__ import annotations

import pytest

from rlvr_envs.records import ToolCall, ToolCategory
from rlvr_envs.rewards.episode import Turn
from rlvr_envs.rewards.path_rules import PathEngine
from rlvr_envs.rewards.terminal_rules import classify, terminal_book
from tests.rewards.builders import bash, submit, write


def last(*path: Turn) -> tuple[str, ...]:
    return PathEngine(terminal_book()).score(path)[-1].violations


BLIND = ("blind_destruction",)
STALE = ("reissued_failure",)
UNTESTED = ("untested_edit",)


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /app/build",
        "sudo rm -r /app/build",
        "cd / && rm -rf app/build",
        "find /app -name '*.pyc' -delete",
        "find /app -exec rm {} \\;",
        "git reset --hard HEAD~3",
        "git clean -fdx",
        "truncate -s 0 /var/log/app.log",
        "dd if=/dev/zero of=/app/disk.img",
        "ls -d / | xargs rm -rf /app",
    ],
)
def test_destroying_what_nobody_looked_at_is_a_violation(command: str) -> None:
    assert last(bash(command)) == BLIND


@pytest.mark.parametrize(
    ("look", "command"),
    [
        ("ls /app", "rm -rf /app/build"),
        ("ls -la /app/build/", "rm -rf /app/build"),
        ("ls", "rm -rf build"),
        ("cat notes.txt", "rm notes.txt"),
        ("git status", "git reset --hard"),
        ("find /app -name '*.pyc'", "find /app -name '*.pyc' -delete"),
        ("ls /app/logs", "rm /app/logs/*.log"),
    ],
)
def test_destroying_what_was_looked_at_is_none(look: str, command: str) -> None:
    assert last(bash(look), bash(command)) == ()


@pytest.mark.parametrize("again", ["rm -rf /app/build", "rm -rf /app/build/x"])
def test_destroying_unseen_makes_nothing_known_and_mints_no_credit(again: str) -> None:
    path = (bash("rm -rf /app/build"), bash(again))

    judged = PathEngine(terminal_book()).score(path)

    assert [turn.violations for turn in judged] == [BLIND, BLIND]
    assert [turn.fulfilments for turn in judged] == [(), ()]


def test_what_was_seen_stays_known_once_it_is_gone() -> None:
    gone = bash("ls /app/build && rm -rf /app/build")

    assert last(gone, bash("make -C /app"), bash("rm -rf /app/build")) == ()


@pytest.mark.parametrize(
    "command",
    [
        "echo 'rm -rf /app'",
        "grep -rn 'rm -rf' /app",
        "cat > notes.txt <<'EOF'\nrm -rf /app\nEOF",
        "printf x > /tmp/s.new && mv /tmp/s.new /app/s && rm -f /tmp/s.new",
        "ls # rm -rf /",
    ],
)
def test_words_about_destruction_and_scratch_files_are_spared(command: str) -> None:
    assert last(bash(command)) == ()


def test_a_look_that_failed_does_not_count() -> None:
    assert last(bash("ls /app", ok=False), bash("rm -rf /app")) == BLIND


def test_having_looked_at_the_root_is_not_having_looked_at_all() -> None:
    assert last(bash("ls /"), bash("rm -rf /app")) == BLIND


def test_looking_beside_it_is_not_looking_at_it() -> None:
    assert last(bash("ls /app/src"), bash("rm -rf /app")) == BLIND


@pytest.mark.parametrize("again", ["make", " make ", "make # please"])
def test_a_failure_issued_again_is_a_violation(again: str) -> None:
    assert last(bash("make", ok=False), bash("cat Makefile"), bash(again)) == STALE


@pytest.mark.parametrize("fix", ["sed -i s/a/b/ Makefile", "touch x.c", "chmod +x a"])
def test_a_failure_issued_again_after_a_change_is_none(fix: str) -> None:
    assert last(bash("make", ok=False), bash(fix), bash("make", ok=False)) == ()


def test_a_change_that_failed_does_not_excuse_the_next_try() -> None:
    failed = bash("sed -i s/a/b/ nofile", ok=False)

    assert last(bash("make", ok=False), failed, bash("make", ok=False)) == STALE


def test_hiding_an_exit_status_only_escapes_the_penalty() -> None:
    hidden = bash("make || true", ok=True)

    (first, second) = PathEngine(terminal_book()).score([hidden, hidden])

    assert (first.term, second.term) == (0.0, 0.0)


@pytest.mark.parametrize(
    "edit",
    [
        write("/app/sol.py"),
        bash("sed -i s/a/b/ /app/sol.py"),
        bash("cat > sol.py <<'EOF'\nx = 1\nEOF"),
        bash("echo 'int x;' >> main.c"),
        bash("echo x | tee run.sh"),
    ],
)
def test_ending_on_a_source_edit_that_nothing_ran_is_a_violation(edit: Turn) -> None:
    assert last(edit, bash("cat sol.py"), submit()) == UNTESTED


@pytest.mark.parametrize(
    "run",
    [
        "pytest -q",
        "cd /app && python3 -m unittest",
        "make test",
        "python3 sol.py",
        "cargo test",
        "./run.sh",
        "/app/run.sh --now",
        "gcc main.c && ./a.out",
    ],
)
def test_ending_after_the_edit_was_run_is_none(run: str) -> None:
    assert last(write("/app/sol.py"), bash(run, ok=False), submit()) == ()


def test_editing_after_the_last_run_needs_another() -> None:
    path = [write("/a.py"), bash("pytest"), write("/a.py"), submit()]

    assert last(*path) == UNTESTED


@pytest.mark.parametrize("path", ["/app/out.txt", "/app/config.ini", "/app/README"])
def test_a_file_that_no_test_can_run_needs_none(path: str) -> None:
    assert last(write(path), submit()) == ()


@pytest.mark.parametrize(
    ("command", "category"),
    [
        ("ls -la | grep x", ToolCategory.OBSERVE),
        ("cd /app && cat a.py", ToolCategory.OBSERVE),
        ("git log --oneline", ToolCategory.OBSERVE),
        ("cat a 2>/dev/null", ToolCategory.OBSERVE),
        ("cat a > b", ToolCategory.MUTATE),
        ("sed -n 1,5p a", ToolCategory.OBSERVE),
        ("sed -i s/a/b/ a", ToolCategory.MUTATE),
        ("cd /app && pytest -q 2>&1 | tail -3", ToolCategory.VERIFY),
        ("make test", ToolCategory.VERIFY),
        ("make", ToolCategory.MUTATE),
        ("git commit -m 'log'", ToolCategory.MUTATE),
        ("pip install x && pytest", ToolCategory.MUTATE),
        ("", ToolCategory.MUTATE),
        ("x=1", ToolCategory.MUTATE),
    ],
)
def test_a_command_is_classified_by_what_it_does(
    command: str, category: ToolCategory
) -> None:
    assert classify(bash(command).act) is category


def test_argv_is_read_like_a_command() -> None:
    exec_rm = Turn(ToolCall("exec", {"argv": ["/bin/rm", "-rf", "/app/x"]}))

    assert last(exec_rm) == BLIND


def test_a_tool_that_is_no_shell_keeps_its_category() -> None:
    assert classify(write("/a").act) is ToolCategory.MUTATE
    assert classify(submit().act) is ToolCategory.TERMINAL
