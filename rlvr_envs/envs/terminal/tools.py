"""What the agent of a terminal episode can call.

No tool is of the category ``verify``: here, checking one's work is a command like
any other, and which command that is, a path rule says.
"""

from __future__ import annotations

from typing import Any

from rlvr_envs.envs.terminal.session import TerminalSession
from rlvr_envs.records import JsonObject, ToolCategory, ToolResult, ToolSpec
from rlvr_envs.tools.posix import check_argv, check_path, check_text
from rlvr_envs.tools.tool import Tool, parameters

_MAX_TEXT = 4 << 20
_PATH: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 4096,
    "description": "Absolute, or relative to the shell's working directory.",
}


_BASH = ToolSpec(
    name="bash",
    description=(
        "Run a command line in a persistent bash. Working directory, variables, "
        "functions, aliases and background jobs last from call to call. Standard "
        "input is empty; standard output and error come back as one text. A status "
        "other than 0 is told in a last line, [exit status N]. Start what runs long "
        "with '&' and its output redirected; a command that outlasts the time limit "
        "is killed."
    ),
    parameters=parameters(
        ("command",),
        command={
            "type": "string",
            "maxLength": _MAX_TEXT,
            "description": "One or more lines for bash, here-documents included.",
            "examples": ["pwd", "echo hello", "printf 'a\\nb\\n' | wc -l", "false"],
        },
    ),
    category=ToolCategory.MUTATE,
)

_EXEC = ToolSpec(
    name="exec",
    description=(
        "Run one program directly, without a shell: no expansion, no quoting, no "
        "redirection. Its standard output and error come back in two sections. It "
        "starts with a fresh environment; variables of the bash tool do not reach it."
    ),
    parameters=parameters(
        ("argv",),
        argv={
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": 4000,
            "description": "The program, a path or a name sought in PATH, and its arguments.",
            "examples": [["echo", "a b"], ["ls", "/"], ["true"]],
        },
        cwd={**_PATH, "examples": ["/"]},
        stdin={
            "type": "string",
            "maxLength": _MAX_TEXT,
            "description": "What the program reads from standard input.",
            "examples": ["a\n"],
        },
    ),
    category=ToolCategory.MUTATE,
)

_READ_FILE = ToolSpec(
    name="read_file",
    description=(
        "Read a file, or some lines of it. Bytes that are no text are shown as \\xHH, "
        "carriage returns too."
    ),
    parameters=parameters(
        ("path",),
        path={**_PATH, "examples": ["/etc/passwd", "/etc/hostname", "/nowhere"]},
        offset={
            "type": "integer",
            "minimum": 1,
            "maximum": 1 << 40,
            "description": "Number of the first line, from 1.",
            "examples": [1, 2],
        },
        limit={
            "type": "integer",
            "minimum": 1,
            "maximum": 1 << 20,
            "description": "How many lines at most.",
            "examples": [1, 10],
        },
    ),
    category=ToolCategory.OBSERVE,
)

_WRITE_FILE = ToolSpec(
    name="write_file",
    description=(
        "Write a text file exactly as given, in UTF-8, replacing what it held. Its "
        "folder must exist. No newline is added."
    ),
    parameters=parameters(
        ("path", "content"),
        path={**_PATH, "examples": ["note.txt", "/nowhere/note.txt"]},
        content={
            "type": "string",
            "maxLength": _MAX_TEXT,
            "description": "The whole content, or what to add.",
            "examples": ["hello\n", ""],
        },
        append={
            "type": "boolean",
            "description": "Add to the end instead of replacing. Default false.",
        },
        mode={
            "type": "string",
            "pattern": "^[0-7]{3,4}$",
            "description": "Permission bits in octal, such as 755.",
            "examples": ["644", "755"],
        },
    ),
    category=ToolCategory.MUTATE,
)

_SCREEN = ToolSpec(
    name="screen",
    description=(
        "Look at the terminal screen, 80 columns by 24 rows, on which an interactive "
        "shell of its own runs. For full-screen and interactive programs."
    ),
    parameters=parameters(),
    category=ToolCategory.OBSERVE,
)

_SEND_KEYS = ToolSpec(
    name="send_keys",
    description=(
        "Type on the terminal screen, wait until it rests, and look at it. Each item "
        "is a tmux key name (Enter, Escape, Tab, BSpace, Up, PageDown, C-c, M-x, F1) "
        "or text, typed as it is. Nothing is executed before an Enter."
    ),
    parameters=parameters(
        ("keys",),
        keys={
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 8192},
            "minItems": 1,
            "maxItems": 256,
            "description": "Keys and texts in order.",
            "examples": [["echo hi", "Enter"], ["C-c"], ["clear", "Enter"]],
        },
        literal={
            "type": "boolean",
            "description": "Type key names, too, as text. Default false.",
        },
    ),
    category=ToolCategory.MUTATE,
)

_SUBMIT = ToolSpec(
    name="submit",
    description=(
        "End the episode. The final state of the machine is judged, not the answer. "
        "Nothing can be done afterwards."
    ),
    parameters=parameters(
        answer={
            "type": "string",
            "maxLength": 65536,
            "description": "A closing remark, recorded only.",
            "examples": ["done"],
        },
    ),
    category=ToolCategory.TERMINAL,
)


def _bash(session: TerminalSession, arguments: JsonObject) -> ToolResult:
    return session.bash(arguments["command"])


def _exec(session: TerminalSession, arguments: JsonObject) -> ToolResult:
    return session.exec(**arguments)


def _read_file(session: TerminalSession, arguments: JsonObject) -> ToolResult:
    return session.read_file(
        arguments["path"],
        first=int(arguments.get("offset", 1)),
        count=int(arguments.get("limit", 0)),
    )


def _write_file(session: TerminalSession, arguments: JsonObject) -> ToolResult:
    return session.write_file(**arguments)


def _screen(session: TerminalSession, _arguments: JsonObject) -> ToolResult:
    return session.screen()


def _send_keys(session: TerminalSession, arguments: JsonObject) -> ToolResult:
    return session.send_keys(**arguments)


def _submit(session: TerminalSession, arguments: JsonObject) -> ToolResult:
    return session.submit(**arguments)


def _check_bash(arguments: JsonObject) -> str:
    return check_text(arguments["command"], "command")


def _check_exec(arguments: JsonObject) -> str:
    complaint = check_argv(arguments["argv"])
    if not complaint and "cwd" in arguments:
        complaint = check_path(arguments["cwd"], "cwd")
    return complaint


def _check_path(arguments: JsonObject) -> str:
    return check_path(arguments["path"], "path")


def _check_keys(arguments: JsonObject) -> str:
    complaints = (check_text(key, "keys") for key in arguments["keys"])
    return next((told for told in complaints if told), "")


TOOLS: tuple[Tool[TerminalSession], ...] = (
    Tool(_BASH, _bash, _check_bash),
    Tool(_EXEC, _exec, _check_exec),
    Tool(_READ_FILE, _read_file, _check_path),
    Tool(_WRITE_FILE, _write_file, _check_path),
    Tool(_SCREEN, _screen),
    Tool(_SEND_KEYS, _send_keys, _check_keys),
    Tool(_SUBMIT, _submit),
)
"""In the order in which the agent is told of them."""
