"""The structure of Python sources: parsed on the host, never executed."""

from __future__ import annotations

import ast
import copy
import fnmatch
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from rlvr_envs.records import Check, JsonObject
from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers import opening, parsing
from rlvr_envs.verifiers.seen import original
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}
_NODES = {
    "type": "array",
    "minItems": 1,
    "items": {
        "enum": sorted(
            name
            for name, value in vars(ast).items()
            if isinstance(value, type) and issubclass(value, ast.AST)
        )
    },
}
SOURCES = 500
"""Most files beneath a folder."""


@dataclass(frozen=True, slots=True)
class Source:
    """A submitted module, and what the snapshot had in its place."""

    path: str
    tree: ast.Module
    before: ast.Module


class AstDiff(Verifier):
    """Checks what sources hold, and what they may not.

    Options: ``path`` (a file, or a folder of ``*.py``) and any of ``forbid_`` and
    ``require_`` with ``calls``, ``imports``, ``names`` or ``nodes``;
    ``require_defs``, ``keep_signatures`` and ``only_change``. What is required must
    stand in some file, what is forbidden in none.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "pattern": "^/"},
            **{
                f"{verb}_{noun}": _NODES if noun == "nodes" else _NAMES
                for verb in ("forbid", "require")
                for noun in ("calls", "imports", "names", "nodes")
            },
            "require_defs": _NAMES,
            "keep_signatures": {"anyOf": [{"const": True}, _NAMES]},
            "only_change": {**_NAMES, "minItems": 0},
        },
        "required": ["path"],
        "minProperties": 2,
        "additionalProperties": False,
    }

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        path = self.options["path"]
        try:
            sources = [
                _source(frozen, context, item)
                for item in _sources(context.submission, path)
            ]
        except (opening.Refused, parsing.Unreadable) as error:
            return Findings((self.check(str(error)),))
        if not sources:
            return Findings((self.check(f"{path} holds no Python source"),))
        rules = [name for name in self.options if name != "path"]
        return Findings(tuple(self._rule(name, sources) for name in rules))

    def _rule(self, name: str, sources: Sequence[Source]) -> Check:
        reason = next(_problems(name, self.options[name], sources), "")
        return Check(f"{self.spec.name}: {name}", not reason, reason)


def _sources(root: Path, path: str) -> list[str]:
    try:
        fd = opening.locate(root, path)
    except OSError:
        raise opening.Refused(f"{path} is missing", missing=True) from None
    try:
        real = opening.real_path(root, fd)
        folder = root / real.lstrip("/")
        if not folder.is_dir():
            return [path]
    finally:
        os.close(fd)
    found = [
        f"{path.rstrip('/')}/{Path(base, name).relative_to(folder)}"
        for base, _folders, names in os.walk(folder)
        for name in names
        if name.endswith(".py")
    ]
    if len(found) > SOURCES:
        raise opening.Refused(f"{path} holds more than {SOURCES} sources")
    return sorted(found)


def _source(frozen: FrozenState, context: Context, path: str) -> Source:
    data = context.read(path, limit_bytes=parsing.SOURCE_BYTES)
    try:
        tree = parsing.parse(data)
    except parsing.Unreadable as error:
        raise parsing.Unreadable(f"{path}: {error}") from None
    return Source(path, tree, _parsed(original(frozen.snapshot, path)))


def _parsed(data: bytes) -> ast.Module:
    try:
        return parsing.parse(data)
    except parsing.Unreadable:
        return ast.Module(body=[], type_ignores=[])


def _problems(rule: str, wanted: Any, sources: Sequence[Source]) -> Iterator[str]:
    verb, _, noun = rule.partition("_")
    if noun in _FOUND:
        read = _FOUND[noun]
        yield from _VERBS[verb](wanted, {s.path: set(read(s.tree)) for s in sources})
    else:
        for source in sources:
            yield from _COMPARED[rule](source, wanted)


def _forbidden(wanted: Sequence[str], found: Mapping[str, set[str]]) -> Iterator[str]:
    for path, names in found.items():
        for glob in wanted:
            if hits := sorted(n for n in names if fnmatch.fnmatchcase(n, glob)):
                yield f"{path} holds {hits[0]}"


def _required(wanted: Sequence[str], found: Mapping[str, set[str]]) -> Iterator[str]:
    everything = set().union(*found.values())
    for glob in wanted:
        if not any(fnmatch.fnmatchcase(name, glob) for name in everything):
            yield f"{glob} is missing"


_VERBS = {"forbid": _forbidden, "require": _required}


def _calls(tree: ast.AST) -> Iterator[str]:
    """Yield called names as written and, for imported ones, by their origin too."""
    origins = dict(parsing.imports(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = parsing.dotted(node.func)
            root, dot, rest = name.partition(".")
            yield name
            yield f"{origins.get(root, root)}{dot}{rest}"


def _imports(tree: ast.AST) -> Iterator[str]:
    for _local, origin in parsing.imports(tree):
        parts = origin.split(".")
        yield from (".".join(parts[: count + 1]) for count in range(len(parts)))


_NAMED_BY = {
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.arg: "arg",
    ast.keyword: "arg",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.alias: "name",
    ast.ExceptHandler: "name",
}


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        field = _NAMED_BY.get(type(node))
        text = getattr(node, field) if field else None
        if text:
            yield from {text, *text.split(".")}


def _nodes(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        yield from (kind.__name__ for kind in type(node).__mro__)


def _defs(tree: ast.AST) -> Iterator[str]:
    for name, _node in parsing.definitions(tree):
        yield name


_FOUND: Mapping[str, Callable[[ast.AST], Iterator[str]]] = {
    "calls": _calls,
    "imports": _imports,
    "names": _names,
    "nodes": _nodes,
    "defs": _defs,
}


def _signatures(source: Source, wanted: Any) -> Iterator[str]:
    now, before = _functions(source.tree), _functions(source.before)
    for name in before if wanted is True else wanted:
        if name not in before:
            continue
        if name not in now:
            yield f"{source.path} lost {name}"
        elif _signature(now[name]) != _signature(before[name]):
            yield f"{source.path} changed the arguments of {name}"


def _functions(tree: ast.AST) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    return {
        name: node
        for name, node in parsing.definitions(tree)
        if not isinstance(node, ast.ClassDef)
    }


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return kind, names and defaults of the arguments; annotations are free."""
    arguments = copy.deepcopy(node.args)
    for item in ast.walk(arguments):
        if isinstance(item, ast.arg):
            item.annotation = None
    return f"{type(node).__name__} {ast.dump(arguments)}"


def _only(source: Source, wanted: Sequence[str]) -> Iterator[str]:
    now, before = _outside(source.tree, wanted), _outside(source.before, wanted)
    if now != before:
        yield f"{source.path} changed outside {', '.join(wanted) or 'nothing'}"


def _outside(tree: ast.Module, allowed: Sequence[str]) -> str:
    """Return what a module is without docstrings and the allowed functions."""
    return "\n".join(_pieces(tree, "", frozenset(allowed)))


def _pieces(tree: ast.AST, prefix: str, allowed: frozenset[str]) -> Iterator[str]:
    for node in _without_docstring(getattr(tree, "body", [])):
        name = f"{prefix}{getattr(node, 'name', '')}"
        if name in allowed:
            yield f"allowed {name}"
        elif isinstance(node, ast.ClassDef):
            yield f"class {name} {[ast.dump(base) for base in node.bases]}"
            yield from _pieces(node, f"{name}.", allowed)
        else:
            yield ast.dump(_bare(node))


def _bare(node: ast.stmt) -> ast.stmt:
    node = copy.deepcopy(node)
    for inner in ast.walk(node):
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner.body = _without_docstring(inner.body)
    return node


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if text else body


_COMPARED: Mapping[str, Callable[[Source, Any], Iterator[str]]] = {
    "keep_signatures": _signatures,
    "only_change": _only,
}
