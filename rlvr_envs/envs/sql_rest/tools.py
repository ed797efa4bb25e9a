"""What the agent of a database episode can call; a door may be shut in a task.

No tool is of the category ``verify``: looking again is checking one's work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlvr_envs.records import JsonObject, ToolCategory, ToolResult, ToolSpec
from rlvr_envs.tools.tool import Tool, parameters

if TYPE_CHECKING:
    from rlvr_envs.envs.sql_rest.doors import Doors

_MAX_TEXT = 1 << 20


_QUERY = ToolSpec(
    name="query",
    description=(
        "Run one SQL statement that only looks, in a read-only transaction of its own "
        "that is rolled back. Rows come back as comma-separated values: NULL is "
        'nothing, an empty text is "".'
    ),
    parameters=parameters(
        ("statement",),
        statement={
            "type": "string",
            "maxLength": _MAX_TEXT,
            "description": "One statement, without a semicolon and another one.",
            "examples": ["SELECT 1 AS one", "SELECT count(*) FROM pg_catalog.pg_am"],
        },
    ),
    category=ToolCategory.OBSERVE,
)

_SQL = ToolSpec(
    name="sql",
    description=(
        "Run one SQL statement in a session that lasts from call to call, as far as "
        "your role's rights go. Each statement commits by itself unless BEGIN opened "
        "a transaction; what is not committed when the episode ends is undone."
    ),
    parameters=parameters(
        ("statement",),
        statement={
            "type": "string",
            "maxLength": _MAX_TEXT,
            "description": "One statement, without a semicolon and another one.",
            "examples": ["SELECT 1 AS one", "BEGIN", "ROLLBACK"],
        },
    ),
    category=ToolCategory.MUTATE,
)

_SCHEMA = ToolSpec(
    name="schema",
    description="List tables and views with their columns, types and constraints.",
    parameters=parameters(),
    category=ToolCategory.OBSERVE,
)

_HEADERS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": "string", "maxLength": 8192},
    "maxProperties": 64,
    "description": "Header names and values.",
    "examples": [{}, {"Accept": "application/json"}],
}
_PATH: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 8192,
    "description": "With the query, percent-encoded, such as /orders?status=open.",
    "examples": ["/openapi.json", "/"],
}

_HTTP_GET = ToolSpec(
    name="http_get",
    description=(
        "Send a GET or HEAD request to the task's HTTP service and read status, headers "
        "and body. /openapi.json describes what the service can do."
    ),
    parameters=parameters(
        ("path",),
        path=_PATH,
        method={"enum": ["GET", "HEAD"], "description": "Default GET."},
        headers=_HEADERS,
    ),
    category=ToolCategory.OBSERVE,
)

_HTTP = ToolSpec(
    name="http",
    description=(
        "Send any request to the task's HTTP service and read status, headers and body. "
        "A body is sent as it is; say what it is in Content-Type."
    ),
    parameters=parameters(
        ("method", "path"),
        method={
            "enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
            "examples": ["GET", "OPTIONS"],
        },
        path=_PATH,
        headers=_HEADERS,
        body={
            "type": "string",
            "maxLength": _MAX_TEXT,
            "description": "Text; nothing by default.",
            "examples": ["{}"],
        },
    ),
    category=ToolCategory.MUTATE,
)

_SUBMIT = ToolSpec(
    name="submit",
    description=(
        "End the episode. What the database holds then is judged, and the answer where "
        "the task asks for one. Nothing can be done afterwards."
    ),
    parameters=parameters(
        answer={
            "type": "string",
            "maxLength": 65536,
            "description": "What the task asks to be told, or a closing remark.",
            "examples": ["done"],
        },
    ),
    category=ToolCategory.TERMINAL,
)


def _query(doors: Doors, arguments: JsonObject) -> ToolResult:
    return doors.query(arguments["statement"])


def _sql(doors: Doors, arguments: JsonObject) -> ToolResult:
    return doors.sql(arguments["statement"])


def _schema(doors: Doors, _arguments: JsonObject) -> ToolResult:
    return doors.schema()


def _http_get(doors: Doors, arguments: JsonObject) -> ToolResult:
    return doors.http(**{"method": "GET", **arguments})


def _http(doors: Doors, arguments: JsonObject) -> ToolResult:
    return doors.http(**arguments)


def _submit(doors: Doors, arguments: JsonObject) -> ToolResult:
    return doors.submit(arguments.get("answer", ""))


TOOLS: tuple[Tool[Doors], ...] = (
    Tool(_QUERY, _query),
    Tool(_SQL, _sql),
    Tool(_SCHEMA, _schema),
    Tool(_HTTP_GET, _http_get),
    Tool(_HTTP, _http),
    Tool(_SUBMIT, _submit),
)
"""In the order in which the agent is told of them."""

CATEGORIES = {tool.spec.name: tool.spec.category for tool in TOOLS}
