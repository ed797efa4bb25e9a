"""A candidate: the process that imports submitted code, and answers in plain data.

Nothing here is trusted by the test: submitted code shares this process and may
rewrite all of it. What it sends is rebuilt as plain data on the other side.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from rlvr_envs.sandbox.inside import integrity, plain, wire

MESSAGE_CHARS = 2000


def serve(requests: int, answers: int, import_from: str) -> None:
    """Answer requests until their pipe closes.

    Args:
        requests: Descriptor that frames are read from.
        answers: Descriptor that frames are written to.
        import_from: Folder of the submitted modules.
    """
    _clear_the_way(import_from)
    before = integrity.fingerprint()
    while True:
        try:
            request = wire.receive(requests)
        except wire.Ended:
            return
        answer = _answer(request)
        answer["changed"] = integrity.changed(before)[:8]
        wire.send(answers, answer)


def _clear_the_way(import_from: str) -> None:
    """Let submitted modules be found first, whatever the runner has loaded."""
    own = [path for path in sys.path if not path.endswith(".zip") or "python" in path]
    sys.path[:] = [import_from, *own]
    try:
        names = {Path(name).stem for name in os.listdir(import_from)}  # noqa: PTH208
    except OSError:
        return
    loaded = [name for name in sys.modules if name.partition(".")[0] in names]
    for name in loaded:
        if name.partition(".")[0] not in sys.stdlib_module_names:
            del sys.modules[name]


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        value = _perform(request, request["canary"])
        return {"value": plain.encode(value)}
    except plain.NotPlain as error:
        return _error("NotPlain", str(error), spoofs=error.spoofs)
    except SystemExit as error:
        left = error.code is None or error.code == 0
        return _error("SystemExit", str(error.code), ended=left)
    except BaseException as error:  # noqa: BLE001 (whatever submitted code raises)
        return _error(type(error).__name__, _message(error))


def _perform(request: dict[str, Any], expected: Any) -> Any:  # noqa: ARG001 (bait)
    """Do what is asked; ``expected`` is bait for code that walks the stack."""
    if request["do"] == "call":
        function: Any = importlib.import_module(request["module"])
        for part in request["function"].split("."):
            function = getattr(function, part)
        return function(
            *[plain.decode(item) for item in request["args"]],
            **{key: plain.decode(item) for key, item in request["kwargs"].items()},
        )
    names = {name: importlib.import_module(name) for name in request["imports"]}
    names |= {key: plain.decode(item) for key, item in request["names"].items()}
    return eval(request["code"], names)  # noqa: S307 (the held-out test wrote it)


def _message(error: BaseException) -> str:
    try:
        return str(error)[:MESSAGE_CHARS]
    except BaseException:  # noqa: BLE001 (its text is the submission's code too)
        return ""


def _error(
    kind: str, message: str, *, spoofs: bool = False, ended: bool = False
) -> dict[str, Any]:
    error = {"type": kind[:200], "message": message, "spoofs": spoofs, "ended": ended}
    return {"error": error}
