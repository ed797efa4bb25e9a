"""Any command with an exit status, run in a pristine sandbox of its own."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from rlvr_envs.records import Check, JsonObject
from rlvr_envs.state import FrozenState, RunRequest, RunResult
from rlvr_envs.verifiers import strict
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

WORK = "/tmp/work"  # noqa: S108 (inside)
NONCE = "RLVR_NONCE"
_PREPARE = 'mkdir -p "$1" && { [ -z "$2" ] || cp -RP "$2"/. "$1"; } && cd "$1"'
_SHELL = f'{_PREPARE} && shift 2 && exec "$@"'


class Command(Verifier):
    """Runs a command and compares its exit status, and what else is asked for.

    Options: ``argv``, ``cwd``, ``copy`` (an artifact folder that is copied to the
    working folder first), ``env``, ``stdin``, ``expect_status``, ``expect_stdout``
    (regular expressions), ``count`` (how often one matches), ``verdict`` (strict JSON
    on descriptor 3 with the nonce of ``RLVR_NONCE``), ``user``, ``final_root`` and
    ``timeout_s``.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "argv": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "cwd": {"type": "string", "pattern": "^/"},
            "copy": {"type": "string", "pattern": "^/"},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "stdin": {"type": "string"},
            "expect_status": {"type": "integer", "minimum": 0, "maximum": 255},
            "expect_stdout": {
                "type": "array",
                "items": {"type": "string", "format": "regex"},
            },
            "count": {
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "format": "regex"},
                    "expected": {"type": "integer", "minimum": 1},
                },
                "required": ["pattern", "expected"],
                "additionalProperties": False,
            },
            "verdict": {"type": "boolean"},
            "user": {"enum": [0, 1000]},
            "final_root": {"type": "boolean"},
            "timeout_s": {"type": "number", "exclusiveMinimum": 0},
        },
        "required": ["argv"],
        "additionalProperties": False,
    }

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        nonce = secrets.token_hex(16)
        done = context.runner.run(self._request(context, nonce))
        reason = next(self._problems(done), "")
        checks = [self.check(reason)]
        if self.options.get("verdict"):
            checks += _spoken(done.verdict, nonce, self.spec.name)
        return Findings(tuple(checks))

    def _request(self, context: Context, nonce: str) -> RunRequest:
        options: Mapping[str, Any] = self.options
        whole = bool(options.get("final_root"))
        spoken = bool(options.get("verdict"))
        copy = f"/submission{options['copy']}" if "copy" in options else ""
        work = options.get("cwd", WORK)
        return RunRequest(
            argv=("/bin/sh", "-c", _SHELL, "sh", work, copy, *options["argv"]),
            env={**options.get("env", {}), **({NONCE: nonce} if spoken else {})},
            stdin=options.get("stdin", "").encode(),
            fixtures=context.fixtures,
            submission=context.submission,
            final_root=whole,
            user=options.get("user", 1000),
            timeout_s=min(float(options.get("timeout_s", 30.0)), context.left_s()),
            verdict_fd=spoken,
        )

    def _problems(self, done: RunResult) -> Iterator[str]:
        wanted = self.options.get("expect_status", 0)
        if done.timed_out:
            yield "it outlasted its time limit"
        if done.exit_code != wanted:
            tail = (done.stderr or done.stdout)[-200:].decode(errors="replace")
            yield f"it ended with status {done.exit_code}, not {wanted}: {tail}"
        text = done.stdout.decode(errors="replace")
        for pattern in self.options.get("expect_stdout", ()):
            if not re.search(pattern, text, re.MULTILINE):
                yield f"its output lacks {pattern!r}"
        if "count" in self.options:
            yield from _counted(text, self.options["count"])


def _counted(text: str, rule: Mapping[str, Any]) -> Iterator[str]:
    times = len(re.findall(rule["pattern"], text, re.MULTILINE))
    if times != rule["expected"]:
        yield f"{rule['pattern']!r} matches {times} times, not {rule['expected']}"


def _spoken(raw: bytes, nonce: str, name: str) -> list[Check]:
    """Return the checks that the command wrote to its verdict pipe."""
    try:
        data = strict.loads(raw)
        if data["nonce"] != nonce:
            raise ValueError("it does not carry the nonce")  # noqa: TRY301 (as the rest)
        checks = [
            Check(f"{name}: {row['name']}", row["passed"] is True, str(row["reason"]))
            for row in data["checks"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        return [Check(f"{name}: verdict", passed=False, reason=f"none: {error}")]
    return checks or [Check(f"{name}: verdict", passed=False, reason="it is empty")]
