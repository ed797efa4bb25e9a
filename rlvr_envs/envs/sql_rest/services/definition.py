"""What a service is before an episode opens it: an application and its operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fastapi import FastAPI
from fastapi.routing import APIRoute

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that only look."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A route, as tickets and instructions speak of it.

    Attributes:
        name: Such as ``create_refund``.
        path: Template, such as ``/orders/{order_id}/refunds``.
        reads: Whether it only looks.
        effect: What a customer would call its write; empty for none.
        repeatable: Whether it may write one record more than once.
    """

    name: str
    method: str
    path: str
    reads: bool
    effect: str = ""
    repeatable: bool = False


@dataclass
class Definition:
    """A service that can be opened; its application is built once per process.

    Attributes:
        build: Builds the application; each route's ``operation_id`` is a name.
        effects: Effect by operation.
        repeatable: Operations that may write one record more than once.
    """

    name: str
    build: Callable[[], FastAPI]
    effects: Mapping[str, str] = field(default_factory=dict)
    repeatable: frozenset[str] = frozenset()

    @cached_property
    def app(self) -> FastAPI:
        """The application."""
        return self.build()

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """All operations, in the order of the routes."""
        return tuple(
            Operation(
                name=str(route.operation_id),
                method=method,
                path=route.path_format,
                reads=method in SAFE,
                effect=self.effects.get(str(route.operation_id), ""),
                repeatable=route.operation_id in self.repeatable,
            )
            for route in self.app.routes
            if isinstance(route, APIRoute)
            for method in sorted(route.methods or ())
        )
