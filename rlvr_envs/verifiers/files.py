"""The content of one file of the submission."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from rlvr_envs.records import Evidence, JsonObject, TamperCode
from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers import content, opening
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier


class FileContent(Verifier):
    """Reads an artifact on the host and compares it.

    Options: ``path``, and what is expected: ``equals``, ``regex``, ``json``,
    ``sha256``, ``lines`` or ``absent``; ``normalise``, ``tolerance``, ``encoding``
    and ``max_bytes`` say how.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "path": content.PATH,
            "absent": {"const": True},
            **content.EXPECTATIONS,
        },
        "required": ["path"],
        "anyOf": [{"required": [name]} for name in (*content.EXPECTING, "absent")],
        "additionalProperties": False,
    }

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        path = self.options["path"]
        limit = self.options.get("max_bytes", content.LIMIT_BYTES)
        try:
            data = context.read(path, limit_bytes=limit)
        except opening.Refused as error:
            absent = "absent" in self.options and error.missing
            check = self.check("" if absent else str(error))
            return Findings((check,), _hindering(path) if error.special else ())
        if "absent" in self.options:
            return Findings((self.check(f"{path} exists"),))
        text = content.problem(data, self.options, context)
        return Findings((self.check(f"{path}: {text}" if text else ""),))


def _hindering(path: str) -> tuple[Evidence, ...]:
    detail = "something that is no file stands where one is read"
    codes = (TamperCode.LINK_ESCAPE, TamperCode.HARNESS_TAMPER)
    return tuple(Evidence(code, path, detail) for code in codes)
