"""What the world, the checks and the recipe of a database's task ask of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

ENGINES = ("postgres", "sqlite")
RIGHTS = ("none", "read", "write", "truncate", "define")

POSTGRES_KINDS = frozenset(
    {"foreign_keys", "refund", "rest_audit", "ticket", "webhook"}
)
"""Checks that read a service's doings, a log of writes, or PostgreSQL's catalogue."""

_POSTGRES = "let world.engine be postgres"


@dataclass(frozen=True, slots=True)
class Flaw:
    """What a task cannot have.

    Attributes:
        where: Path of what is wrong in ``task.yaml``.
    """

    where: tuple[str | int, ...]
    message: str
    remedy: str


_Rule = tuple[Callable[[Mapping[str, Any]], bool], str, str, str]

# A table that an agent owns can have a trigger of its making, which runs in whatever
# session writes there and may change how that session waits.
_RULES: tuple[_Rule, ...] = (
    (
        lambda world: world["rights"] == "none" and not world["service"],
        "",
        "without rights and a service there is no door",
        "give the world rights or a service",
    ),
    (
        lambda world: world["engine"] == "sqlite" and bool(world["service"]),
        "service",
        "services need the engine postgres",
        f"{_POSTGRES}, or leave the service out",
    ),
    (
        lambda world: bool(world["define"]) and world["rights"] != "define",
        "define",
        "needs the rights define",
        "let world.rights be define, or leave the tables out",
    ),
    (
        lambda world: bool(world["define"] and world["service"]),
        "define",
        "a table that a service may write cannot be the agent's to define",
        "leave the tables out, or the service: an owner's trigger runs in its session",
    ),
    (
        lambda world: (
            world["engine"] == "sqlite"
            and any(not table.startswith("main.") for table in world["define"])
        ),
        "define",
        "the schema of SQLite's tables is main",
        "write main.TABLE",
    ),
)


def flaw_of(world: Mapping[str, Any], kinds: Iterable[str] = ()) -> Flaw | None:
    """Return the first thing that does not go together; ``None`` if all does.

    Args:
        world: As a task declares it, each part as `schema.WORLD` has it.
        kinds: Of the task's checks, in order.
    """
    whole = {**_DEFAULTS, **world}
    for broken, part, message, remedy in _RULES:
        if broken(whole):
            where = ("world", part) if part else ("world",)
            return Flaw(where, f"{'.'.join(where)}: {message}.", remedy)
    for index, kind in enumerate(kinds):
        if whole["engine"] == "sqlite" and kind in POSTGRES_KINDS:
            return Flaw(
                ("verification", "checks", index),
                f"Checks of the kind {kind} need the engine postgres.",
                f"{_POSTGRES}, or judge by sql_invariant and sql_rows",
            )
    return None


def recipe_flaw(world: Mapping[str, Any], service: Mapping[str, Any]) -> str:
    """Return what a recipe's service data asks of a world that has it not.

    Args:
        world: As a task declares it.
        service: `Recipe.service`.
    """
    if world.get("engine") == "sqlite" and service:
        return "A task on SQLite has neither a service nor rivals"
    if world.get("define") and service.get("rivals"):
        return "Rivals cannot write tables that are the agent's to define"
    return ""


_DEFAULTS: Mapping[str, Any] = {
    "engine": "postgres",
    "rights": "read",
    "service": "",
    "define": (),
}
