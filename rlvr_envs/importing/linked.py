"""Linked structures as plain data: nodes become numbered rows, and come back.

The file is copied into the verifier folder of a generated task. A held-out test
imports it; its source is evaluated in the candidate's process too. So it imports
the standard library only. Identity, cycles and changes made in place survive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

MARK = "\0node"
"""First item of the pair that stands for a node."""

LIMIT_NODES = 10_000

Rows = list[dict[str, Any]]


class Node:
    """A node as QuixBugs' programs know it: attributes, and no behaviour."""

    def __init__(
        self,
        value: Any = None,
        successor: Any = None,
        successors: Any = None,
        predecessors: Any = None,
        incoming_nodes: Any = None,
        outgoing_nodes: Any = None,
    ) -> None:
        self.value = value
        self.successor = successor
        self.successors = successors or []
        self.predecessors = predecessors or []
        self.incoming_nodes = incoming_nodes or []
        self.outgoing_nodes = outgoing_nodes or []


class Crossing:
    """One call's way there and back; both sides number the same nodes alike."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._numbers: dict[int, int] = {}

    def pack(self, value: Any) -> tuple[Rows, Any]:
        """Return rows for every node known by now, and the value."""
        packed = self._pack(value)
        rows: Rows = []
        while len(rows) < len(self._nodes):
            node = self._nodes[len(rows)]
            rows.append({key: self._pack(item) for key, item in vars(node).items()})
        return rows, packed

    def unpack(self, rows: Rows, value: Any) -> Any:
        """Return the value; nodes that are known already stay the same objects.

        Raises:
            ValueError: If the rows are fewer than the known nodes, or too many.
        """
        if not len(self._nodes) <= len(rows) <= LIMIT_NODES:
            raise ValueError(f"{len(rows)} nodes came back.")
        while len(self._nodes) < len(rows):
            self._number(Node())
        for node, row in zip(self._nodes, rows, strict=True):
            for key, item in row.items():
                setattr(node, key, self._unpack(item))
        return self._unpack(value)

    def _number(self, node: Node) -> int:
        if id(node) not in self._numbers:
            if len(self._nodes) >= LIMIT_NODES:
                raise ValueError("There are too many nodes.")
            self._numbers[id(node)] = len(self._nodes)
            self._nodes.append(node)
        return self._numbers[id(node)]

    def _pack(self, value: Any) -> Any:
        if type(value) is Node:
            return (MARK, self._number(value))
        if isinstance(value, Iterator):
            return [self._pack(item) for item in value]
        return _mapped(value, self._pack)

    def _unpack(self, value: Any) -> Any:
        if type(value) is tuple and len(value) == 2 and value[0] == MARK:
            return self._nodes[value[1]]
        return _mapped(value, self._unpack)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return kind(change(item) for item in value)
    if kind is dict:
        return {change(key): change(item) for key, item in value.items()}
    return value


def answer(function: Callable[..., Any], rows: Rows, arguments: Any) -> Any:
    """Call a function on the candidate's side; return rows and value."""
    crossing = Crossing()
    return crossing.pack(function(*crossing.unpack(rows, arguments)))
