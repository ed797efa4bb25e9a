"""What `reset` can be asked for, and where an episode can begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlvr_envs.confinement import Confinement
from rlvr_envs.errors import WrongArgument, WrongType
from rlvr_envs.sandbox.base import SealedLayer
from rlvr_envs.tasks.task import Instance

SEED_LIMIT = 2**63

_FORMS = {
    "task": "give a task's name",
    "confinement": "give a rlvr_envs.confinement.Confinement",
    "start": "give what branch() or seal() returned",
}


@dataclass(frozen=True, slots=True)
class Start:
    """Where other episodes can begin: a branch, or an ended episode, sealed.

    Pass it as ``reset(options={"start": start})``; `close` it when no more
    episodes begin there.

    Attributes:
        layers: Sealed layers above the instance's snapshot, lowest first.
    """

    instance: Instance
    layers: tuple[SealedLayer, ...]

    def close(self) -> None:
        """Release the storage of the newest layer; idempotent."""
        self.layers[-1].close()


@dataclass(frozen=True, slots=True)
class Options:
    """What `reset` was asked for.

    Attributes:
        task: Name in the taskset.
        number: Instance number, at least 0.
        runtime_seed: Seed of randomness inside, in [0, 2**63).
    """

    task: str
    number: int
    confinement: Confinement
    runtime_seed: int
    start: Start | None = None


def read_options(given: Mapping[str, Any], *, task: str, drawn_seed: int) -> Options:
    """Check the options of a reset.

    Args:
        given: As the caller passed them.
        task: The task where none is named.
        drawn_seed: The runtime seed where none is given.

    Raises:
        WrongArgument: If an option is unknown or out of range.
        WrongType: If an option is of the wrong type.
    """
    known = {"task", "instance", "confinement", "runtime_seed", "start"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise WrongArgument(
            f"reset() knows no option {unknown[0]!r}.",
            remedy=f"choose from {', '.join(sorted(known))}",
        )
    held = given.get("confinement", Confinement())
    return Options(
        task=_typed("task", given.get("task") or task, str),
        number=_number("instance", given.get("instance", 0)),
        confinement=_typed("confinement", held, Confinement),
        runtime_seed=_number("runtime_seed", given.get("runtime_seed", drawn_seed)),
        start=_typed("start", given.get("start"), Start | None),
    )


def _typed(name: str, value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise WrongType(
            f"reset option {name!r} cannot be {value!r}.", remedy=_FORMS[name]
        )
    return value


def _number(name: str, value: Any) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not 0 <= value < SEED_LIMIT:
        raise WrongArgument(
            f"reset option {name!r} is a number from 0, not {value!r}.",
            remedy="leave it out, or give one",
        )
    return int(value)
