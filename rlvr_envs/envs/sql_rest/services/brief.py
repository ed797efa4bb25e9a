"""An application whose description an agent can read in one observation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict
from typing_extensions import override

_NOISE = frozenset({"title", "responses", "summary"})
_ERRORS = frozenset({"HTTPValidationError", "ValidationError"})
_NAMED = frozenset({"properties", "schemas", "paths"})
"""Mappings whose keys are names of ours, that may be called ``title`` or so."""


class BriefAPI(FastAPI):
    """Describes operations, parameters and bodies; every answer is JSON."""

    @override
    def openapi(self) -> dict[str, Any]:
        """Return OpenAPI 3.1, in which answers need no description."""
        whole = super().openapi()
        parts = {**whole, "components": {"schemas": _own(whole)}}
        return {name: _brief(value) for name, value in parts.items()} | {
            "info": whole["info"]
        }


class Body(BaseModel):
    """What a request carries: these fields, of these types, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


Route = tuple[str, str, Callable[..., Any], int]
"""Method, path, function (its name is the operation's) and status of success."""


def brief_app(title: str, routes: Iterable[Route]) -> FastAPI:
    """Return an application of routes, in order."""
    app = BriefAPI(title=title, version="1", docs_url=None, redoc_url=None)
    for method, path, endpoint, status in routes:
        app.add_api_route(
            path,
            endpoint,
            methods=[method],
            operation_id=endpoint.__name__,
            status_code=status,
            response_model=None,
        )
    return app


def _own(whole: Mapping[str, Any]) -> dict[str, Any]:
    schemas = whole.get("components", {}).get("schemas", {})
    return {name: schema for name, schema in schemas.items() if name not in _ERRORS}


def _brief(value: Any, *, named: bool = False) -> Any:
    if isinstance(value, list):
        return [_brief(item) for item in value if item != {"type": "null"}]
    if not isinstance(value, dict):
        return value
    return {
        key: _brief(item, named=key in _NAMED and not named)
        for key, item in value.items()
        if named or key not in _NOISE
    }
