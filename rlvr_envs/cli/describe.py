"""`rlvr describe`: one task, as the agent and the judge see it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from rlvr_envs.cli.shell import Shell
from rlvr_envs.cli.targets import add_env_options, env_maker, natural, taskset


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser(
        "describe", help="show a task: instruction, tools, limits, checks"
    )
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--instance", type=natural, default=0, metavar="N")
    add_env_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print the task; nothing that is hidden from the agent is shown."""
    shell = Shell(as_json=args.json)
    env = env_maker(args)()
    known = taskset(env)
    task = known.get(args.task)
    instance = known.instance(args.task, args.instance)
    facts = {"env": args.env.rpartition(":")[2], **_facts(task, instance)}
    tools = [
        {**tool.openai()["function"], "category": str(tool.category)}
        for tool in env.get_wrapper_attr("tool_specs")
    ]
    env.close()
    shell.emit({**facts, "instruction": instance.instruction, "tools": tools})
    shell.table(task.title, ("", ""), facts.items())
    shell.table(
        "Tools",
        ("tool", "category", "arguments", "description"),
        ([t["name"], t["category"], _names(t), t["description"]] for t in tools),
    )
    shell.text("", "Instruction:", "", instance.instruction)
    return 0


def _facts(task: Any, instance: Any) -> Mapping[str, Any]:
    judged = task.verification
    return {
        "task": task.name,
        "title": task.title,
        "difficulty": task.difficulty,
        "tags": list(task.tags),
        "instance": instance.number,
        "digest": instance.digest,
        "image": task.image,
        "user": task.user,
        "workdir": task.workdir,
        "budget": {str(key): value for key, value in dict(task.budget).items()},
        "mode": judged.mode,
        "artifacts": list(judged.artifacts),
        "writes": list(judged.writes),
        "checks": [f"{check.name} ({check.kind})" for check in judged.checks],
    }


def _names(tool: Mapping[str, Any]) -> list[str]:
    required = tool["parameters"].get("required", ())
    names = tool["parameters"].get("properties", {})
    return [name if name in required else f"[{name}]" for name in names]
