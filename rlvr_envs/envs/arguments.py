"""Arguments of `gym.make`, held against what they have to be."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, cast

from rlvr_envs.errors import WrongArgument


def check_names(what: str, factory: Callable[..., Any], given: Iterable[str]) -> None:
    """Refuse an argument that a class does not take.

    Args:
        what: Its name, for the message.
        factory: The class; what it passes on as ``**kwargs`` its bases take.
        given: Names of arguments.

    Raises:
        WrongArgument: Naming the first that it does not take, and what it takes.
    """
    taken = _parameters(factory)
    unknown = sorted(set(given) - set(taken)) if taken is not None else []
    if unknown:
        raise WrongArgument(
            f"{what} takes no argument {unknown[0]!r}.",
            remedy=f"leave it out; there are {', '.join(sorted(taken or ()))}",
        )


def check_kind(name: str, value: object, kinds: Any, *, wanted: str) -> None:
    """Refuse a value of another type.

    Args:
        name: Of the argument.
        value: As the caller gave it.
        kinds: A type or a union.
        wanted: What to give, in words.

    Raises:
        WrongArgument: Naming the argument.
    """
    is_flag = isinstance(value, bool) and kinds is not bool
    if is_flag or not isinstance(value, kinds):
        raise WrongArgument(f"{name} cannot be {value!r}.", remedy=f"give {wanted}")


def check_seconds(name: str, value: object) -> None:
    """Refuse what is no time above 0.

    Raises:
        WrongArgument: Naming the argument.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and 0 < float(cast("float", value)) < math.inf):
        raise WrongArgument(
            f"{name} cannot be {value!r}.", remedy="give a number of seconds above 0"
        )


def _parameters(factory: Callable[..., Any]) -> set[str] | None:
    """Return the names that a class takes; ``None`` where it takes any."""
    if not inspect.isclass(factory):
        return None
    names: set[str] = set()
    for part in factory.__mro__:
        if "__init__" not in vars(part):
            continue
        found = inspect.signature(vars(part)["__init__"]).parameters.values()
        names |= {
            item.name
            for item in found
            if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)
        }
        if all(item.kind is not item.VAR_KEYWORD for item in found):
            return names - {"self", "env"}
    return None
