"""What a folder of tau2-bench's retail domain holds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_envs.errors import TaskError
from rlvr_envs.importing.folders import task_name
from rlvr_envs.importing.tau2_calls import TASKS, Request, request
from rlvr_envs.importing.tau2_seed import script

DATABASE, POLICY = "db.json", "policy.md"
_REMEDY = "Name the folder of tau2-bench's retail domain."


@dataclass(frozen=True, slots=True)
class Ticket:
    """One task of the corpus.

    Attributes:
        name: Of the task folder.
        text: What the customer wants, in the corpus's words.
        requests: The expected actions, in order.
        facts: What the reply must tell.
        customer: Id of the customer whom the actions write for; empty for none.
    """

    name: str
    text: str
    requests: tuple[Request, ...]
    facts: tuple[str, ...] = ()
    customer: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What a folder of the retail domain holds.

    Attributes:
        seed: SQL script of the shop.
    """

    policy: str
    seed: str
    tickets: tuple[Ticket, ...]


def load(folder: Path) -> Corpus:
    """Read a corpus.

    Raises:
        TaskError: If a file is missing or is not what it should be.
    """
    database = _json(folder / DATABASE)
    rows = _json(folder / TASKS)
    try:
        seed = script(database)
        known = _Known(database)
        tickets = tuple(_ticket(row, known) for row in rows)
    except (KeyError, TypeError, AttributeError) as error:
        raise TaskError(
            f"A record lacks what every one has: {error!r}.",
            file=folder,
            remedy=_REMEDY,
        ) from error
    return Corpus(_text(folder / POLICY), seed, tickets)


def _json(file: Path) -> Any:
    try:
        return json.loads(_text(file))
    except json.JSONDecodeError as error:
        raise TaskError(
            f"The file is no JSON: {error.msg}.", file=file, line=error.lineno
        ) from error


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TaskError(
            "The file is missing.",
            file=file,
            remedy=_REMEDY,
        ) from None


class _Known:
    """Finds which customer a ticket is of."""

    def __init__(self, database: Mapping[str, Any]) -> None:
        self._users = list(database["users"].values())
        self._orders = database["orders"]

    def owner(self, actions: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        """Return the id of the customer whom actions name first, by an order or so."""
        for _, arguments in actions:
            order = self._orders.get(arguments.get("order_id"), {})
            if user_id := arguments.get("user_id") or order.get("user_id"):
                return str(user_id)
        return ""

    def lookup(self, text: str) -> Request:
        """Return how the one customer of whom a text speaks is looked up.

        Raises:
            TaskError: If it speaks of none, or of several.
        """
        found = [user for user in self._users if _speaks_of(text, user)]
        if len(found) != 1:
            raise TaskError(f"{len(found)} customers fit {text!r}.", file=TASKS)
        name, address = found[0]["name"], found[0]["address"]
        arguments = {**name, "zip": address["zip"]}
        return request("find_user_id_by_name_zip", arguments)


def _speaks_of(text: str, user: Mapping[str, Any]) -> bool:
    words = set(re.findall(r"[\w.@-]*\w", text.lower()))
    name = {part.lower() for part in user["name"].values()}
    by_name = name | {user["address"]["zip"]} <= words
    return bool(by_name or {user["user_id"], user["email"]} & words)


def _ticket(row: Mapping[str, Any], known: _Known) -> Ticket:
    told = row["user_scenario"]["instructions"]
    parts = ("reason_for_call", "known_info", "unknown_info", "task_instructions")
    texts = [str(told[part] or "").strip() for part in parts]
    wanted = row["evaluation_criteria"]
    actions = [(item["name"], item["arguments"]) for item in wanted["actions"]]
    requests = tuple(request(name, arguments) for name, arguments in actions)
    if not any(name.startswith("find_user") for name, _ in actions):
        requests = (known.lookup(f"{texts[0]} {texts[1]}"), *requests)
    return Ticket(
        name=task_name(f"tau2-retail-{row['id']:0>3}"),
        text="\n\n".join(text for text in texts if text.strip(".")),
        requests=requests,
        facts=tuple(wanted["communicate_info"] or ()),
        customer=known.owner(actions),
    )
