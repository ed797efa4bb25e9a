"""The persistent shell: what comes back, what lasts, what an agent cannot break."""

from __future__ import annotations

import hashlib
import time

import pytest

from rlvr_envs.records import ErrorKind
from tests.envs.terminal.conftest import Open, Terminal, host_commands
from tests.processes import eventually


@pytest.mark.parametrize(
    ("command", "text", "status"),
    [
        ("declare -a Z=( ); (exit 9)", "[exit status 9]", 9),
        (
            "echo __END__0; echo '<<rc=0>>'; false",
            "__END__0\n<<rc=0>>\n[exit status 1]",
            1,
        ),
        ("echo after", "after", 0),
        ("echo a;", "a", 0),
        ("for i in 1 2; do echo $i; done;", "1\n2", 0),
        ("read x; echo got:$x", "got:", 0),
        ("printf no-newline", "no-newline", 0),
        ("printf no-newline; false", "no-newline\n[exit status 1]", 1),
        ("", "", 0),
        ("# a remark", "", 0),
        ("echo out; echo err >&2; echo out2", "out\nerr\nout2", 0),
        ("cat", "", 0),
        ("sh -c 'kill -9 $$' 2>&1 | cat; (exit 137)", "[exit status 137]", 137),
        ("set -o pipefail; false | true", "[exit status 1]", 1),
        ("! true", "[exit status 1]", 1),
        ("break", "", 0),
        ("continue; echo unreached", "", 0),
        ("break 9; echo unreached", "", 0),
    ],
)
def test_output_and_status_come_back(
    terminal: Terminal, command: str, text: str, status: int
) -> None:
    result = terminal.bash(command)

    assert (result.text, result.exit_code) == (text, status)
    assert result.ok is (status == 0)
    assert terminal.bash("echo next").text == "next"


def test_a_here_document_is_literal(terminal: Terminal) -> None:
    body = "$HOME `id` \"x\" 'y' ;\n-----BEGIN CERTIFICATE-----\n\tMIIB\\n=\n"

    terminal.bash(f"cat <<'EOF' > q.txt\n{body}EOF")

    assert terminal.bash("cat q.txt").raw == body.encode()


def test_a_syntax_error_is_the_shells_own(terminal: Terminal) -> None:
    result = terminal.bash("if true; the")

    assert result.exit_code == 2
    assert "syntax error" in result.text
    assert terminal.bash("echo next").text == "next"


def test_lines_before_a_syntax_error_have_run(terminal: Terminal) -> None:
    result = terminal.bash("echo first\nif true; the )")

    assert result.text.startswith("first\n")
    assert result.exit_code == 2


def test_messages_name_the_shell_and_the_line_of_the_command(
    terminal: Terminal,
) -> None:
    result = terminal.bash("true\nno-such-program")

    assert result.text.startswith("bash: line 2: no-such-program: command not found")
    assert result.exit_code == 127


@pytest.mark.parametrize("count", [20_000, 500_000])
def test_a_long_line_arrives_whole(terminal: Terminal, count: int) -> None:
    data = "Qk" * count

    terminal.bash(f"printf '%s' '{data}' > big.b64")
    result = terminal.bash("wc -c < big.b64; sha256sum big.b64")

    digest = hashlib.sha256(data.encode()).hexdigest()
    assert result.text.split() == [str(2 * count), digest, "big.b64"]


def test_what_a_shell_knows_lasts(terminal: Terminal) -> None:
    terminal.bash("mkdir -p d && cd d && export K=1; V=2; f() { echo f$1; }")
    terminal.bash("alias ll='echo aliased'; set -- x y; exec 9> nine; umask 027")
    terminal.bash("sleep 300 & job=$!")

    shown = terminal.bash("echo ${PWD##*/} $K $V $(f 3) $2; ll; echo z >&9; cat nine")

    assert shown.text == "d 1 2 f3 y\naliased\nz"
    assert terminal.bash("umask; kill -0 $job && kill $job").text == "0027"


@pytest.mark.parametrize("status", [0, 1, 5])
def test_the_last_status_can_be_asked_for(terminal: Terminal, status: int) -> None:
    terminal.bash(f"(exit {status})")

    assert terminal.bash("echo $?").text == str(status)


def test_a_program_inherits_no_descriptor_of_the_driver(terminal: Terminal) -> None:
    result = terminal.bash("ls /proc/self/fd; (ls /proc/self/fd) | cat")

    # 3 is the folder that `ls` itself reads.
    assert result.text.split() == ["0", "1", "2", "3"] * 2


def test_standard_streams_can_be_reopened(terminal: Terminal) -> None:
    result = terminal.bash("echo a > /dev/stdout; echo b > /dev/stderr")

    assert result.text == "a\nb"


def test_a_shell_that_exits_is_started_again(terminal: Terminal) -> None:
    terminal.bash("cd /; K=1")
    result = terminal.bash("echo bye; exit 7")

    assert result.exit_code == 7
    assert result.error_kind is ErrorKind.SHELL_LOST
    assert result.text.startswith("bye\n[the shell exited with status 7 and was")
    assert [event.kind for event in result.events] == ["shell_restarted"]
    assert terminal.bash("echo back $K").text == "back"


# Each of these attacks what the driver stands on. Either the step after it works,
# or the shell was replaced and the agent was told: never silence, never a hang.
AMBUSHES = [
    "exit",
    "set -e; false",
    "exec ls /",
    "exec no-such-program",
    "kill -9 $$",
    "kill -TERM $$",
    "kill -INT $$",
    "eval() { :; }",
    "read() { :; }; printf() { echo forged; }; command() { :; }",
    "builtin() { :; }",
    "builtin() { echo 0 0 0; }",
    "exec() { :; }; trap() { :; }; unset() { :; }; set() { :; }",
    "enable -n eval",
    "enable -n builtin read printf",
    "enable -n read",
    "shopt -s extdebug; trap false DEBUG",
    "trap 'echo dbg' DEBUG",
    "trap 'exit 3' DEBUG",
    "trap 'echo bye' EXIT; trap 'echo err' ERR; trap 'echo ret' RETURN",
    "trap 'kill -9 $$' EXIT; exit",
    "exec >&-",
    "exec 2>&-",
    "exec >/dev/null 2>&1",
    "exec 200>&- 201>&-",
    "exec 10>&- 11>&-; exec 10<&- 11<&-",
    "echo forged 0 0 >&10",
    "for fd in 10 11 12 13; do echo '1 0 1' >&$fd; done 2>/dev/null",
    "ulimit -f 0",
    "ulimit -n 20",
    "ulimit -v 20000",
    "set -n",
    "set -t",
    "set -x",
    "set -v",
    "set -u",
    "set -o posix",
    "set -r",
    "set -C -f -a -k -h",
    "IFS=0123456789abcdef",
    "readonly IFS",
    "readonly __rlvr_id __rlvr_cmd",
    "unset __rlvr_id __rlvr_cmd",
    "__rlvr_id=forged",
    "declare -i __rlvr_id",
    "declare -n __rlvr_cmd=PATH",
    "alias until=echo builtin=echo do=echo eval=echo",
    "BASH_EXECUTION_STRING='echo gone'; break",
    "PROMPT_COMMAND='echo prompt'; PS4='$(echo x)'; PS1=x",
    "export BASH_ENV=/etc/passwd POSIXLY_CORRECT=1 LC_ALL=xx",
    "LC_ALL=C; LANG=C",
    "stty -echo raw",
    "shopt -s failglob nullglob xpg_echo lastpipe nocasematch; shopt -u expand_aliases",
    "trap '' INT TERM HUP PIPE",
    "PATH=",
    "unset PATH HOME PWD",
    "mkdir gone; cd gone; rmdir ../gone",
    "(echo 'x 0 0' >&11) 2>/dev/null; jobs; disown -a; suspend",
    "return 3",
    "logout",
    "printf '\\0\\0\\0'",
    "coproc cat",
    "history -c; set -o history; bind -l >/dev/null 2>&1",
]


@pytest.mark.parametrize("ambush", AMBUSHES)
def test_no_ambush_silences_or_hangs_the_shell(terminal: Terminal, ambush: str) -> None:
    results = [terminal.bash(ambush)]
    # The driver may fall only after its report, which one more step finds out.
    results += [terminal.bash("echo al''ive >&2; echo al''ive") for _ in range(2)]

    assert not any(result.timed_out for result in results)
    silenced = ambush.startswith(("exec >", "exec 2>"))
    assert silenced or "alive" in results[-1].text


def test_a_forged_report_costs_the_forger_its_shell(terminal: Terminal) -> None:
    result = terminal.bash("echo 'forged 0 1' >&10; echo '' >&11; sleep 600")

    assert result.error_kind is ErrorKind.SHELL_LOST
    assert not result.timed_out
    assert terminal.bash("echo next").text == "next"


def test_a_well_forged_report_fools_its_forger_alone(terminal: Terminal) -> None:
    forged = terminal.bash(
        'for fd in 10 11; do echo "$__rlvr_id 0 1" >&$fd; done 2>&-; '
        "sleep 0.2; echo later; (exit 3)"
    )
    results = [terminal.bash("echo next; (exit 5)") for _ in range(3)]

    assert forged.exit_code == 0
    assert not any(result.timed_out for result in results)
    assert results[-1].exit_code == 5
    assert results[-1].text == "next\n[exit status 5]"


def test_a_shell_that_silenced_itself_still_reports(terminal: Terminal) -> None:
    terminal.bash("exec >/dev/null 2>&1")

    result = terminal.bash("echo unseen; (exit 4)")

    assert (result.text, result.exit_code) == ("[exit status 4]", 4)


def test_killing_everything_costs_the_shell_alone(terminal: Terminal) -> None:
    if terminal.session._launch.user == 0:
        pytest.skip("the local double would kill the host's processes")
    spared = terminal.bash("sleep 300 & K=1; kill -9 -1; echo $K")
    result = terminal.bash("sh -c 'kill -9 -1'; echo unreached")

    # The kernel spares the process that asks, here the shell itself.
    assert (spared.text, spared.exit_code) == ("1", 0)
    assert result.exit_code == 137
    assert result.error_kind is ErrorKind.SHELL_LOST
    assert "[the shell was killed by signal 9 and" in result.text
    assert terminal.bash("echo back").text == "back"


def test_a_background_job_does_not_hold_the_step_up(terminal: Terminal) -> None:
    began = time.monotonic()
    result = terminal.bash("(sleep 300; echo late) & echo started")

    assert result.text == "started"
    assert time.monotonic() - began < 4.0
    assert terminal.bash("kill $!").exit_code == 0


def test_late_output_belongs_to_the_next_step(terminal: Terminal) -> None:
    terminal.bash("mkfifo gate; (read x < gate; echo late; echo > gate) &")

    result = terminal.bash("echo > gate; read x < gate; echo now")

    assert result.text == "late\nnow"


TREE = "echo step-one; bash -c 'trap \"\" TERM; setsid sleep {s} & while :; do :; done'"


@pytest.mark.parametrize("seconds", ["6151", "6252"])
def test_a_timeout_kills_the_tree_and_keeps_the_session(
    hasty: Terminal, seconds: str
) -> None:
    hasty.bash("cd /; K=kept; sleep 6999 & early=$!")
    began = time.monotonic()
    result = hasty.bash(TREE.format(s=seconds))

    assert time.monotonic() - began < 0.4 + 0.4 + 1.0
    assert (result.timed_out, result.limit) == (True, "step")
    assert result.error_kind is ErrorKind.TIMEOUT
    assert result.exit_code == -1
    assert result.text.startswith("step-one\n")
    assert "[timed out after 0.4 s; everything that it had started was" in result.text
    assert hasty.bash("echo alive; pwd; echo $K").text == "alive\n/\nkept"
    assert eventually(
        lambda: not [c for c in host_commands() if f"sleep {seconds}" in c]
    )
    assert hasty.bash("kill -0 $early && kill $early").exit_code == 0


def test_a_timeout_starts_nothing_that_comes_after(hasty: Terminal) -> None:
    result = hasty.bash("sleep 600; echo second > late; sleep 600\necho third > late")

    assert result.timed_out
    assert hasty.bash("cat late").exit_code == 1


@pytest.mark.parametrize(
    "command",
    [
        "while :; do :; done",
        "f() { while :; do :; done; }; f",
        "f() { sleep 600; sleep 600; sleep 600; }; f",
        "for i in 1 2 3; do sleep 600; done",
        "sleep 600 | cat",
        "(sleep 600; sleep 600)",
        "x=$(sleep 600; echo x)",
        "wait & sleep 600 & wait",
        "trap '' INT TERM; sleep 600",
        "while :; do sleep 0.01; done",
        "exec sleep 600",
    ],
)
def test_a_step_ends_in_time_and_the_next_one_works(
    hasty: Terminal, command: str
) -> None:
    began = time.monotonic()
    result = hasty.bash(command)

    assert time.monotonic() - began < 0.4 + 0.4 + 1.0
    assert result.timed_out
    # Bash may tell of a background job that was killed before.
    assert hasty.bash("echo next").text.splitlines()[-1] == "next"


@pytest.mark.parametrize(
    "command",
    [
        "trap '' RTMAX; while :; do :; done",
        "kill -STOP $$",
        "mkfifo f; read x < f",
        "trap 'while :; do :; done' EXIT; exit",
    ],
)
def test_a_shell_that_cannot_be_interrupted_is_replaced(
    hasty: Terminal, command: str
) -> None:
    hasty.bash("K=1")
    result = hasty.bash(command)

    assert result.timed_out
    assert "the shell had to be replaced" in result.text
    assert [event.kind for event in result.events] == ["shell_restarted"]
    assert hasty.bash("echo back $K").text == "back"


def test_the_episodes_end_can_come_before_the_steps(terminal: Terminal) -> None:
    terminal.session.limit_s(0.2)
    result = terminal.bash("sleep 600")

    assert (result.limit, result.timed_out) == ("episode", True)
    assert "[timed out after 0.2 s" in result.text
    assert terminal.bash("sleep 0.3; echo rested").text == "rested"


def test_many_timeouts_leave_nothing(open_terminal: Open) -> None:
    terminal = open_terminal(step_timeout_s=0.1, grace_s=0.5)

    for _ in range(20):
        assert terminal.bash(TREE.format(s=6353)).timed_out

    # Those of this test alone: the machine may be busy with something else.
    assert eventually(lambda: not [c for c in host_commands() if "6353" in c])
