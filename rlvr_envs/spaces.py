"""The spaces of an environment that speaks text: what is read, what may be done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from gymnasium import Space
from gymnasium.vector.utils.shared_memory import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from gymnasium.vector.utils.space_utils import create_empty_array
from typing_extensions import override

from rlvr_envs.records import ToolSpec

Action = str | Mapping[str, Any]
"""A tool call, as a JSON string or as the same mapping."""

_ALPHABET = (
    "abcdefghijklmnopqrstuvwxyz ABC 0123456789\n\t.,:;-_/\\'\"{}[]$"
    "\u00e9\u00df\u041f\u0416\u05d0\u0645\u4e2d\u3042\u2500\U0001f600"
)
_SAMPLE_CHARS = 64


class Unicode(Space[str]):
    """Every string that UTF-8 can encode, the empty one included.

    A lone surrogate is outside, because ``obs.encode("utf-8")`` must work.
    """

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    @override
    def is_np_flattenable(self) -> bool:
        return False

    @override
    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Return a short text of letters, blanks, signs and several scripts.

        Raises:
            ValueError: If a mask or a probability is given.
        """
        _refuse_masks(mask, probability)
        size = int(self.np_random.integers(0, _SAMPLE_CHARS + 1))
        picks = self.np_random.integers(0, len(_ALPHABET), size)
        return "".join(_ALPHABET[pick] for pick in picks)

    @override
    def contains(self, x: Any) -> bool:
        if not isinstance(x, str):
            return False
        try:
            x.encode()
        except UnicodeEncodeError:
            return False
        return True

    @override
    def __repr__(self) -> str:
        return "Unicode()"

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unicode)

    @override
    def __hash__(self) -> int:
        return hash(Unicode)


class ToolCallSpace(Space[Action]):
    """Tool calls: whatever `step` answers belongs, and a sample is always valid.

    Any string and any mapping is inside, since a malformed call gets an
    observation and no exception. `sample` returns JSON strings that satisfy the
    schema of the tool that they name.

    Args:
        specs: The tools, at least one, no two of one name.
        seed: As in every space.

    Raises:
        ValueError: If there is no tool, or a name occurs twice.
    """

    def __init__(
        self,
        specs: Iterable[ToolSpec],
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.specs = tuple(specs)
        names = [spec.name for spec in self.specs]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"Tools need distinct names, and one at least: {names}.")
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    @override
    def is_np_flattenable(self) -> bool:
        return False

    @override
    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Return a valid call as a JSON string.

        Raises:
            ValueError: If a mask or a probability is given.
        """
        _refuse_masks(mask, probability)
        spec = self.specs[int(self.np_random.integers(len(self.specs)))]
        arguments = sample_schema(spec.parameters, self.np_random)
        return json.dumps({"name": spec.name, "arguments": arguments})

    @override
    def contains(self, x: Any) -> bool:
        return isinstance(x, str | Mapping)

    @override
    def __repr__(self) -> str:
        return f"ToolCallSpace({', '.join(spec.name for spec in self.specs)})"

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolCallSpace) and self.specs == other.specs

    @override
    def __hash__(self) -> int:
        return hash(tuple(spec.name for spec in self.specs))


def sample_schema(schema: Mapping[str, Any], rng: np.random.Generator) -> Any:
    """Return a value that satisfies a JSON Schema.

    Args:
        schema: Of the subset that tools use: ``const``, ``enum``, ``examples``
            (taken as given), and the types with their bounds. A ``pattern`` or a
            combination of schemas needs ``examples``.
        rng: Decides everything; the same state gives the same value.

    Raises:
        ValueError: If the schema has a type that is not in the subset.
    """
    if "const" in schema:
        return schema["const"]
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][int(rng.integers(len(schema[key])))]
    sampler = _SAMPLERS.get(schema.get("type", ""))
    if sampler is None:
        raise ValueError(f"No sample can be drawn from the schema {dict(schema)!r}.")
    return sampler(schema, rng)


def _sample_object(
    schema: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, Any]:
    required = schema.get("required", ())
    return {
        name: sample_schema(part, rng)
        for name, part in schema.get("properties", {}).items()
        if name in required or rng.random() < 0.5
    }


def _sample_array(schema: Mapping[str, Any], rng: np.random.Generator) -> list[Any]:
    low = int(schema.get("minItems", 0))
    high = min(int(schema.get("maxItems", low + 3)), low + 3)
    count = int(rng.integers(low, high + 1))
    return [sample_schema(schema["items"], rng) for _ in range(count)]


def _sample_string(schema: Mapping[str, Any], rng: np.random.Generator) -> str:
    low = int(schema.get("minLength", 0))
    high = min(int(schema.get("maxLength", low + 12)), low + 12)
    letters = rng.integers(ord("a"), ord("z") + 1, int(rng.integers(low, high + 1)))
    return "".join(chr(letter) for letter in letters)


def _sample_integer(schema: Mapping[str, Any], rng: np.random.Generator) -> int:
    low = int(schema.get("minimum", 0))
    return int(rng.integers(low, int(schema.get("maximum", low + 100)), endpoint=True))


def _sample_number(schema: Mapping[str, Any], rng: np.random.Generator) -> float:
    low = float(schema.get("minimum", 0.0))
    return float(rng.uniform(low, float(schema.get("maximum", low + 1.0))))


_SAMPLERS: Mapping[str, Callable[[Mapping[str, Any], np.random.Generator], Any]] = {
    "object": _sample_object,
    "array": _sample_array,
    "string": _sample_string,
    "integer": _sample_integer,
    "number": _sample_number,
    "boolean": lambda _schema, rng: bool(rng.integers(2)),
    "null": lambda _schema, _rng: None,
}


def _refuse_masks(mask: Any | None, probability: Any | None) -> None:
    if mask is not None or probability is not None:
        raise ValueError("Text spaces know no masks: call sample() without one.")


def _refuse_shared_memory(space: Space[Any], *_args: Any, **_more: Any) -> NoReturn:
    raise ValueError(
        f"{space} is text of any length and cannot live in shared memory. "
        "Remedy: pass shared_memory=False to AsyncVectorEnv, or "
        'vector_kwargs={"shared_memory": False} to gymnasium.make_vec.'
    )


def _empty_texts(
    _space: Space[Any], n: int = 1, fn: Callable[..., Any] = np.zeros
) -> tuple[str, ...]:
    del fn  # an array makes no sense of text
    return ("",) * n


# The rest of the vector protocol (batching, concatenation, iteration) treats an
# unknown space as a tuple of its items, which is what text needs.
_TEXT_SPACES: Sequence[type[Space[Any]]] = (Unicode, ToolCallSpace)
for _kind in _TEXT_SPACES:
    create_empty_array.register(_kind, _empty_texts)
    create_shared_memory.register(_kind, _refuse_shared_memory)
    read_from_shared_memory.register(_kind, _refuse_shared_memory)
    write_to_shared_memory.register(_kind, _refuse_shared_memory)
