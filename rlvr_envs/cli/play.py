"""`rlvr play`: an episode by hand."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlvr_envs.cli.outputs import require_folder
from rlvr_envs.cli.shell import Shell
from rlvr_envs.cli.targets import add_env_options, env_maker, natural, task_names
from rlvr_envs.errors import CallerError
from rlvr_envs.records import ToolSpec
from rlvr_envs.rollouts.policies import submission
from rlvr_envs.trajectories.encoding import plain

HELP = """\
  ls -la               a line is a command for the tool bash, or a statement for sql
  :read_file {"path": "/etc/hostname"}    any tool, with its arguments as JSON
  {"name": "bash", "arguments": {...}}    a whole call
  :tools  :info  :task  :help             ask, without using a turn
  :submit                                 end the episode and be judged
  :quit (or Ctrl-D)                       give up"""


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser("play", help="play an episode by hand")
    add_env_options(parser)
    parser.add_argument("--task", metavar="NAME", help="default: the first")
    parser.add_argument("--instance", type=natural, default=0, metavar="N")
    parser.add_argument("--seed", type=natural, default=0, metavar="S")
    parser.add_argument(
        "--script", type=Path, metavar="FILE", help="read lines from it"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the trajectory")


def run(args: argparse.Namespace) -> int:
    """Play until submit, the budget's end, or quit."""
    shell = Shell(as_json=args.json)
    lines = _lines(args.script)
    require_folder(args.out)
    env = env_maker(args, record=args.out)()
    try:
        task = task_names(env, [args.task] if args.task else None)[0]
        table = Table(shell, env)
        table.sit_down(task, args.instance, args.seed)
        for line in lines:
            if not table.hear(line.rstrip("\n")):
                break
        table.leave()
    finally:
        env.close()
    return 0


_PLAIN = {"bash": "command", "sql": "statement"}
"""The tool that a plain line is for, and the argument that it becomes."""


@dataclass
class Table:
    """Where a person sits across from an environment."""

    shell: Shell
    env: gym.Env[Any, Any]
    info: Mapping[str, Any] | None = None
    instruction: str = ""
    over: bool = False

    def sit_down(self, task: str, instance: int, seed: int) -> None:
        """Begin an episode and show its instruction."""
        options = {"task": task, "instance": instance}
        self.instruction, self.info = self.env.reset(seed=seed, options=options)
        self.shell.text(f"Task {task}, instance {instance}, seed {seed}", "")
        self.shell.text(self.instruction, "", HELP, "")
        self.shell.emit({"observation": self.instruction, "info": self.info})

    def hear(self, line: str) -> bool:
        """Take one line; return whether the episode goes on."""
        word, _, rest = line.strip().partition(" ")
        if not word:
            return True
        if word == ":quit":
            return False
        questions: Mapping[str, Callable[[], object]] = {
            ":help": lambda: HELP,
            ":task": lambda: self.instruction,
            ":info": lambda: json.dumps(plain(self.info), indent=2),
            ":tools": lambda: "\n".join(_usage(tool) for tool in self.tools),
        }
        if word in questions:
            self.shell.text(str(questions[word]()))
            return True
        return self._act(line.strip(), word, rest)

    def leave(self) -> None:
        """Say how it ended."""
        outcome = (self.info or {}).get("outcome") or {}
        if self.over and outcome:
            status, reward = outcome.get("status"), outcome.get("reward")
            self.shell.text("", f"Outcome: {status}, reward {reward}")
        else:
            self.shell.text("", "Given up; nothing was judged.")

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools of the environment."""
        specs: Sequence[ToolSpec] = self.env.get_wrapper_attr("tool_specs")
        return specs

    def _act(self, line: str, word: str, rest: str) -> bool:
        action = self._action(line, word, rest)
        if action is None:
            return True
        observation, reward, terminated, truncated, self.info = self.env.step(action)
        self.over = terminated or truncated
        self.shell.text(observation.rstrip("\n"))
        self.shell.emit(
            {"observation": observation, "reward": reward, "info": self.info}
        )
        return not self.over

    def _action(self, line: str, word: str, rest: str) -> Any:
        names = {tool.name for tool in self.tools}
        if word == ":submit" and not rest:
            return submission(self.tools)
        if word.startswith(":") and word[1:] in names:
            return self._call(word[1:], rest or "{}")
        if line.startswith("{"):
            return line
        plain_line = next((tool for tool in _PLAIN if tool in names), None)
        if not word.startswith(":") and plain_line is not None:
            return {"name": plain_line, "arguments": {_PLAIN[plain_line]: line}}
        self.shell.text(f"There is no {word}. Try :help or :tools.")
        return None

    def _call(self, name: str, arguments: str) -> Any:
        try:
            return {"name": name, "arguments": json.loads(arguments)}
        except ValueError as error:
            self.shell.text(f"The arguments are no JSON: {error}")
            return None


def _usage(tool: ToolSpec) -> str:
    arguments = ", ".join(tool.parameters.get("properties", {}))
    return f"  :{tool.name} {{{arguments}}}  ({tool.category}) {tool.description}"


def _lines(script: Path | None) -> Iterable[str]:
    if script is None:
        return _prompted() if sys.stdin.isatty() else sys.stdin
    try:
        return script.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CallerError(
            f"{script} cannot be read: {error.strerror}.",
            remedy="name a file of lines as they would be typed",
        ) from error


def _prompted() -> Iterator[str]:
    try:
        import readline  # noqa: PLC0415  # its import changes how input() reads

        readline.set_auto_history(True)
    except ImportError:
        pass
    while True:
        try:
            yield input("rlvr> ")
        except EOFError:
            return
