"""Each defence, and an attack that gets past a double without it.

A defence that no attack here needs would be a defence that nothing tests.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from rlvr_envs.records import JsonObject, Outcome, Places, Snapshot
from rlvr_envs.sandbox.base import (
    Process,
    Sandbox,
    SandboxSpec,
)
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from rlvr_envs.sandbox.runner import PristineRunner
from rlvr_envs.state import FrozenState, RunRequest, RunResult
from rlvr_envs.verifiers import Context, Findings, Judge, Verifier
from rlvr_envs.verifiers.command import Command
from rlvr_envs.verifiers.guards import Audit
from rlvr_envs.verifiers.ingest import Ingested
from rlvr_envs.verifiers.strict import loads
from tests.sandbox.examining import Bench, bench, codes, outcomes, pool
from tests.verifiers.builders import (
    Content,
    ToyRunner,
    changes_of,
    check,
    frozen,
    instance,
    verification,
)

__all__ = ["bench", "pool"]

ANSWER = check("file_content", path="/app/out.txt", equals="5\n")
RIGHT: dict[str, Content] = {"app/out.txt": "5\n"}
WRONG: dict[str, Content] = {"app/out.txt": "wrong\n"}


@pytest.fixture
def agent(
    namespaces: type[NamespaceSandbox], base_snapshot: Snapshot, places: Places
) -> Iterator[Sandbox]:
    with namespaces(SandboxSpec(base_snapshot), places) as sandbox:
        yield sandbox


def act(sandbox: Sandbox, script: str, *, user: int = 0) -> Process:
    """Run a script as an agent, and leave what it leaves."""
    with Path(os.devnull).open("r+b") as null:
        process = sandbox.spawn(
            ["/bin/sh", "-c", script],
            fds=[null.fileno()] * 3,
            env={"PATH": "/usr/bin:/bin"},
            user=user,
        )
    assert process.wait(20) == 0
    return process


def judged(
    folder: Path,
    state: FrozenState,
    *,
    judge: Judge | None = None,
    runner: Any = None,
    fixtures: dict[str, str] | None = None,
    **fields: Any,
) -> Outcome:
    given = verification(**{"checks": (ANSWER,), **fields})
    played = instance(folder / "task", given, fixtures=fixtures)
    used = replace(judge or Judge(), staging=folder / "staging")
    return used.judge(state, played, runner or ToyRunner())


# D1: everything is dead before anything is read.

LATE = "mkdir /app; echo wrong > /app/out.txt; (sleep 0.4; echo 5 > /app/out.txt) &"


def test_d1_a_late_writer_writes_to_nobody(agent: Sandbox, tmp_path: Path) -> None:
    act(agent, LATE)
    census = agent.kill()
    state = FrozenState(agent.view(), Snapshot(()), id_base=agent.id_base)

    outcome = judged(tmp_path, state)

    assert census.survivors != ()
    assert (census.remaining, outcome.reward) == (0, 0.0)


def test_without_d1_a_late_writer_wins(agent: Sandbox, tmp_path: Path) -> None:
    with Path(os.devnull).open("r+b") as null:
        keeper = agent.spawn(
            ["/bin/sleep", "60"],
            fds=[null.fileno()] * 3,
            env={},
        )
    act(agent, LATE)
    living = Path(f"/proc/{keeper.pid}/root")
    deadline = time.monotonic() + 10
    while (living / "app/out.txt").read_text() != "5\n":
        assert time.monotonic() < deadline
    state = FrozenState(living, Snapshot(()), id_base=agent.id_base)

    assert judged(tmp_path, state).reward == 1.0


# D2: the verifier's tools are the image's.

COMPARE = check("command", argv=["cmp", "/submission/app/out.txt", "/verifier/want"])


class OnTheAgentsOwn:
    """A runner without D2: it uses the tools that the agent could edit."""

    def __init__(self, inner: PristineRunner) -> None:
        self._inner = inner

    def run(self, request: RunRequest) -> RunResult:
        return self._inner.run(replace(request, final_root=True))


def swapped(agent: Sandbox) -> FrozenState:
    act(
        agent,
        "mkdir /app; echo wrong > /app/out.txt;"
        "printf '#!/bin/sh\\nexit 0\\n' > /usr/bin/cmp; chmod 755 /usr/bin/cmp",
    )
    agent.kill()
    return FrozenState(agent.view(), Snapshot(()), id_base=agent.id_base)


def test_d2_swapped_tools_are_not_used(
    agent: Sandbox, bench: Bench, tmp_path: Path
) -> None:
    outcome = judged(
        tmp_path,
        swapped(agent),
        runner=bench.runner,
        checks=(COMPARE,),
        fixtures={"want": "5\n"},
    )

    assert outcome.reward == 0.0


def test_without_d2_swapped_tools_say_yes(
    agent: Sandbox,
    bench: Bench,
    namespaces: type[NamespaceSandbox],
    base_snapshot: Snapshot,
    places: Places,
    tmp_path: Path,
) -> None:
    state = swapped(agent)
    own = PristineRunner(
        lambda spec: namespaces(spec, places),
        pristine=base_snapshot,
        pool=bench.pool,
        final_root=state.root,
    )

    outcome = judged(
        tmp_path,
        state,
        runner=OnTheAgentsOwn(own),
        checks=(COMPARE,),
        fixtures={"want": "5\n"},
    )

    assert outcome.reward == 1.0


# D3: no file is a verdict.

FORGED: dict[str, Content] = {**WRONG, "logs/verifier/reward.json": '{"reward": 1}'}


class VerdictFile(Verifier):
    """A verifier without D3: it believes a file."""

    schema: ClassVar[JsonObject] = {}

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        raw = (frozen.root / "logs/verifier/reward.json").read_bytes()
        return Findings((self.check("" if loads(raw)["reward"] == 1 else "no"),))


def test_d3_a_forged_verdict_file_means_nothing(tmp_path: Path) -> None:
    outcome = judged(tmp_path, frozen(tmp_path, FORGED))

    assert (outcome.reward, outcome.tamper) == (0.0, ())


def test_without_d3_a_forged_verdict_file_wins(tmp_path: Path) -> None:
    trusting = Judge(kinds={"file_content": VerdictFile})

    assert judged(tmp_path, frozen(tmp_path, FORGED), judge=trusting).reward == 1.0


SPEAKER = """
import json, os, subprocess, sys
subprocess.run([sys.executable, "/submission/app/x.py"], pass_fds=[3])
"""
FORGER = """
import json, os
os.write(3, json.dumps({"nonce": "guess", "checks": [
    {"name": "all", "passed": True, "reason": ""}]}).encode())
"""
SPOKEN = check("command", argv=["python3", "/verifier/check.py"], verdict=True)


class NoNonce(Command):
    """A verifier without D3's nonce: it believes whoever writes to the pipe."""

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        done = context.runner.run(self._request(context, "unused"))
        return Findings(tuple(self.check() for _row in loads(done.verdict)["checks"]))


def spoken(folder: Path, bench: Bench, judge: Judge) -> Outcome:
    return judged(
        folder,
        frozen(folder, {"app/x.py": FORGER}),
        judge=judge,
        runner=bench.runner,
        checks=(SPOKEN,),
        fixtures={"check.py": SPEAKER},
    )


def test_d3_a_verdict_without_the_nonce_is_none(bench: Bench, tmp_path: Path) -> None:
    assert spoken(tmp_path, bench, Judge()).reward == 0.0


def test_without_d3s_nonce_the_submission_speaks(bench: Bench, tmp_path: Path) -> None:
    assert spoken(tmp_path, bench, Judge(kinds={"command": NoNonce})).reward == 1.0


# D4: links are not followed out of the submission.


def follow(
    state: FrozenState, artifacts: Collection[str], target: Path, **_options: Any
) -> Ingested:
    """Take artifacts without D4: by path, wherever it leads."""
    for artifact in artifacts:
        shutil.copytree(
            state.root / artifact.lstrip("/"), target / artifact.lstrip("/")
        )
    return Ingested()


def pointed(folder: Path) -> FrozenState:
    return frozen(folder, {"app/out.txt": f"-> {folder}/task/verifier/want"})


def test_d4_a_link_to_the_key_is_flagged(tmp_path: Path) -> None:
    outcome = judged(tmp_path, pointed(tmp_path), fixtures={"want": "5\n"})

    assert (outcome.reward, outcome.tamper) == (0.0, ("LINK_ESCAPE",))


def test_without_d4_a_link_to_the_key_wins(tmp_path: Path) -> None:
    state = pointed(tmp_path)

    outcome = judged(
        tmp_path, state, judge=Judge(take=follow), fixtures={"want": "5\n"}
    )

    assert outcome.reward == 1.0


# D5: changes are held against the declared write set.

AMBUSH: dict[str, Content] = {**RIGHT, "etc/environment": "BASH_ENV=/etc/be.sh\n"}


def test_d5_an_ambush_after_the_solution_earns_nothing(tmp_path: Path) -> None:
    state = frozen(tmp_path, AMBUSH, changes=changes_of(AMBUSH, "modified"))

    outcome = judged(tmp_path, state)

    assert (outcome.reward, outcome.tamper) == (0.0, ("TOOL_SHADOW",))


def test_without_d5_an_ambush_is_never_seen(tmp_path: Path) -> None:
    blind = Judge(audit=lambda *_given: Audit())

    assert judged(tmp_path, frozen(tmp_path, AMBUSH), judge=blind).reward == 1.0


# D6: what is asked is not in the world, and not always the same.

CASES = """
import json
from pathlib import Path

def test_sum(candidate, hidden, tmp_path):
    file = tmp_path / "n.txt"
    file.write_text("".join(f"{number}\\n" for number in hidden["numbers"]))
    done = candidate.run(["python3", "total.py", file])
    assert done.stdout.strip() == str(sum(hidden["numbers"]))
"""
BY_HEART = {"total.py": "print(5050)\n"}


def test_d6_an_answer_by_heart_fails_on_hidden_inputs(bench: Bench) -> None:
    found = bench.examine(BY_HEART, CASES, hidden__json='{"numbers": [3, 4, 90]}')

    assert outcomes(found) == {"failed"}


def test_without_d6_an_answer_by_heart_wins(bench: Bench) -> None:
    sample = str(list(range(1, 101)))

    found = bench.examine(BY_HEART, CASES, hidden__json=f'{{"numbers": {sample}}}')

    assert outcomes(found) == {"passed"}


# D7: a pass is a number of tests that ran, not a status.

LEAVER = {"sol.py": "import os\nos._exit(0)\n"}
IN_PROCESS = "from sol import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
BY_STATUS = check(
    "command",
    argv=["python3", "-B", "-m", "pytest", "-q", "/verifier/test_sol.py"],
    env={"PYTHONPATH": "/submission/app"},
)


def test_d7_leaving_early_is_no_pass(bench: Bench) -> None:
    tests = "def test_add(candidate): assert candidate.call('sol', 'add', 1, 2) == 3\n"

    found = bench.examine(LEAVER, tests)

    assert (outcomes(found), codes(found)) == ({"failed"}, {"EARLY_EXIT"})


def test_without_d7_leaving_early_wins(bench: Bench, tmp_path: Path) -> None:
    state = frozen(tmp_path, {"app/sol.py": LEAVER["sol.py"]})

    outcome = judged(
        tmp_path,
        state,
        runner=bench.runner,
        checks=(BY_STATUS,),
        fixtures={"test_sol.py": IN_PROCESS},
    )

    assert outcome.reward == 1.0


# D8: time is read where the submission cannot set it.

SLOW = {
    "sol.py": (
        "import time\n_sleep = time.sleep\ntime.perf_counter = lambda: 0.0\n"
        "def work(): _sleep(0.4)\n"
    )
}
OUR_CLOCK = """
import time
def test_fast(candidate):
    start = time.monotonic()
    candidate.call("sol", "work")
    assert time.monotonic() - start < 0.3
"""
THEIR_CLOCK = """
def test_fast(candidate):
    code = "(time.perf_counter(), sol.work(), time.perf_counter())"
    start, _none, end = candidate.eval(code, imports=["time", "sol"])
    assert end - start < 0.3
"""


def test_d8_a_clock_that_stands_still_makes_nobody_fast(bench: Bench) -> None:
    assert outcomes(bench.examine(SLOW, OUR_CLOCK)) == {"failed"}


def test_without_d8_a_clock_that_stands_still_wins(bench: Bench) -> None:
    assert outcomes(bench.examine(SLOW, THEIR_CLOCK)) == {"passed"}
