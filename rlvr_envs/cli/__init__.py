"""The command line, one file a command.

Exit status: 0 the command did its work and what it checked holds, 1 a check failed
or an episode was void, 2 it was called wrongly or the machine lacks something, 130
it was interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import gymnasium as gym
from typing_extensions import override

from rlvr_envs.errors import RlvrError, WorldError, remedy_for
from rlvr_envs.records import Places

COMMANDS: Mapping[str, tuple[str, str]] = {
    "doctor": ("doctor", "say what this machine has and lacks, and fix what can be"),
    "list": ("listing", "list the tasks of an environment"),
    "describe": ("describe", "show a task: instruction, tools, limits, checks"),
    "play": ("play", "play an episode by hand"),
    "run": ("run", "let policies play episodes, in groups of one snapshot"),
    "learn": (
        "learn",
        "train a small policy on real sandboxes, and say what it learned",
    ),
    "replay": ("replay", "play recorded episodes again and compare every byte"),
    "verify": ("verify", "score a recorded final state again"),
    "attack": ("attack", "play the attack catalogue and its benign twins"),
    "bench": ("bench", "measure speed, cost and scale"),
    "images": ("images", "list, build, verify and carry base images"),
    "import": ("importing", "turn a foreign task set into ours"),
    "tickets": ("tickets", "watch the scores of many tickets; let people audit some"),
    "lint-rewards": ("lint_rewards", "check declared reward rules by design rules"),
}
"""Name to module and help; a command's module is imported when it is called."""

_INTERRUPTED = 130
_MISUSED = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    shared, rest = _shared_parser().parse_known_args(words)
    previous = _terminate_as_interrupt()
    try:
        return _dispatch(shared, rest)
    except KeyboardInterrupt:
        print("rlvr: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return 0
    except (RlvrError, ValueError, OSError, gym.error.Error) as error:
        if shared.traceback:
            traceback.print_exc()
        print(f"rlvr: {_told(error, rest)}", file=sys.stderr)
        return _MISUSED
    finally:
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)


def _dispatch(shared: argparse.Namespace, rest: Sequence[str]) -> int:
    parser = _parser(_named(rest))
    args = parser.parse_args(rest)
    for name, value in vars(shared).items():
        setattr(args, name, value)
    if not getattr(args, "command", None):
        parser.print_help(sys.stderr)
        return _MISUSED
    args.places = Places(store=args.store, run=args.run_dir)
    status: int = _module(args.command).run(args)
    return status


def _named(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def _told(error: Exception, words: Sequence[str]) -> str:
    """Return one message that says what is wrong and what to do about it."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, WorldError) or " Remedy: " in text:
        return text
    remedy = f"see `rlvr {_named(words)} --help`".replace("  ", " ")
    if isinstance(error, OSError):
        remedy = remedy_for(error)
        text = f"{error.filename}: {error.strerror}" if error.filename else text
    return f"{text.rstrip('.')}. Remedy: {remedy}"


def _module(command: str) -> Any:
    return importlib.import_module(f"rlvr_envs.cli.{COMMANDS[command][0]}")


def _shared_parser() -> argparse.ArgumentParser:
    """Return the options that stand anywhere on the line, for every command."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    shared = parser.add_argument_group("options of every command")
    shared.add_argument("--json", action="store_true", help="one object a line")
    default = Places()
    shared.add_argument(
        "--store",
        type=Path,
        default=default.store,
        metavar="DIR",
        help=f"images, layers and the launcher (default {default.store})",
    )
    shared.add_argument(
        "--run-dir",
        type=Path,
        default=default.run,
        metavar="DIR",
        help=f"what belongs to living sandboxes (default {default.run})",
    )
    shared.add_argument(
        "--traceback", action="store_true", help="show where an error came from"
    )
    return parser


def _parser(command: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rlvr",
        description="Sandboxed environments with verifiable rewards.",
        parents=[_shared_parser()],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (_, help_text) in COMMANDS.items():
        if name == command:
            _module(name).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=help_text, add_help=False)
    return parser


class _Version(argparse.Action):
    @override
    def __call__(self, *_: Any) -> NoReturn:
        from rlvr_envs import __version__  # noqa: PLC0415  # only when asked

        print(f"rlvr-envs {__version__}")
        raise SystemExit(0)


def _terminate_as_interrupt() -> Any:
    """Let a SIGTERM unwind like Ctrl-C, so that sandboxes are removed."""

    def interrupt(_signal: int, _frame: Any) -> NoReturn:
        raise KeyboardInterrupt

    try:
        return signal.signal(signal.SIGTERM, interrupt)
    except ValueError:
        return None


def _drop_output() -> None:
    """Keep the interpreter from complaining of a closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
