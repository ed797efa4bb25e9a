"""Short ways to write turns and episodes, and strategies that draw them."""

from __future__ import annotations

from hypothesis import strategies as st

from rlvr_envs.records import ErrorKind, Outcome, Status, ToolCall, ToolCategory
from rlvr_envs.rewards.episode import Episode, Turn


def bash(command: str, output: str = "", *, ok: bool = True, tokens: int = 0) -> Turn:
    call = ToolCall("bash", {"command": command})
    return Turn(call, output, ok=ok, tokens=tokens)


def write(path: str) -> Turn:
    return Turn(ToolCall("write_file", {"path": path, "content": "x"}))


def submit() -> Turn:
    return Turn(ToolCall("submit"), category=ToolCategory.TERMINAL)


def read(path: str, output: str = "text") -> Turn:
    call = ToolCall("read_file", {"path": path})
    return Turn(call, output, category=ToolCategory.OBSERVE)


def refused() -> Turn:
    kind = ErrorKind.MALFORMED_CALL
    return Turn(ToolCall(""), category=ToolCategory.OBSERVE, ok=False, error_kind=kind)


def episode(
    reward: float = 0.0,
    *turns: Turn,
    status: Status | None = None,
    scripted: bool = False,
) -> Episode:
    chosen = status or (Status.PASSED if reward > 0.0 else Status.FAILED)
    return Episode(turns, Outcome(chosen, reward), scripted)


VOID = Outcome(Status.INFRA_ERROR, 0.0)
WIN = Outcome(Status.PASSED, 1.0)
LOSS = Outcome(Status.FAILED, 0.0)

commands = st.sampled_from(
    [
        "ls",
        "ls /app",
        "cat a.py",
        "rm -rf /app/x",
        "pytest -q",
        "make",
        "sed -i s/a/b/ a.py",
        "echo x > b.py",
        "false",
    ]
)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    """Draw a turn: a shell command, a file written, a refused call or a submit."""
    kind = draw(st.sampled_from(["bash", "bash", "bash", "write", "refused", "submit"]))
    if kind == "refused":
        return refused()
    if kind == "submit":
        return submit()
    if kind == "write":
        return write(draw(st.sampled_from(["/app/a.py", "/app/n.txt"])))
    output = draw(st.sampled_from(["", "one", "two words", "one two three"]))
    return Turn(
        ToolCall("bash", {"command": draw(commands)}),
        output,
        category=draw(st.sampled_from(list(ToolCategory))),
        ok=draw(st.booleans()),
        tokens=draw(st.integers(0, 50)),
        void=draw(st.sampled_from([False, False, False, True])),
    )


paths = st.lists(turns(), max_size=24).map(tuple)
rewards = st.sampled_from([0.0, 0.25, 0.976, 1.0])


@st.composite
def groups(draw: st.DrawFn) -> list[Episode]:
    """Draw a group of 1 to 8 episodes, void and scripted ones among them."""
    rows = st.tuples(rewards, st.booleans(), st.booleans())
    drawn = draw(st.lists(rows, min_size=1, max_size=8))
    return [
        episode(
            0.0 if void else reward,
            status=Status.INFRA_ERROR if void else None,
            scripted=scripted,
        )
        for reward, void, scripted in drawn
    ]
