"""What a held-out test holds in its hand: the fixture ``candidate``."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rlvr_envs.sandbox.inside import confine, plain, wire

OUTPUT_BYTES = 4 << 20
READ_BYTES = 32 << 20
TIMEOUT_STATUS = 124


class CandidateError(Exception):
    """Submitted code raised, hung, died, or answered with what is no plain data.

    Attributes:
        type: Name of the exception's class there; ``Timeout``, ``Ended``,
            ``NotPlain`` and ``Forged`` are ours.
        message: Its text.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.type = kind
        self.message = message


@dataclass(frozen=True)
class Done:
    """How a program of the submission ended.

    Attributes:
        status: Exit status, 128 + signal, or 124 where it hung.
    """

    status: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    timed_out: bool = False

    @property
    def stdout(self) -> str:
        """Standard output; bytes that are not UTF-8 become U+FFFD."""
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        """Standard error, likewise."""
        return self.stderr_bytes.decode(errors="replace")


@dataclass
class Process:
    """A living candidate process."""

    pid: int
    requests: int
    answers: int
    canary: str

    def close(self) -> None:
        """Close our ends of its pipes."""
        os.close(self.requests)
        os.close(self.answers)


class Candidate:
    """The submission, from a test's side: called, run or read; never imported."""

    Error: ClassVar[type[CandidateError]] = CandidateError

    def __init__(
        self, zygote: socket.socket, *, root: Path, import_from: str, timeout_s: float
    ) -> None:
        self._zygote = zygote
        self._root = root
        self._home = self.path(import_from)
        self._timeout_s = timeout_s
        self._process: Process | None = None
        self.deadline = time.monotonic() + timeout_s
        self.test = ""
        self.used = False
        self.marks: list[tuple[str, str, str]] = []

    def call(
        self,
        module: str,
        function: str,
        /,
        *args: Any,
        timeout_s: float | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call a function of a submitted module, in the test's candidate process.

        Args:
            module: Dotted name, found beneath ``import_from``.
            function: Its name; dotted for a method.
            args: Plain data.
            timeout_s: Of this call; the test's own limit holds anyway.
            kwargs: Plain data.

        Raises:
            CandidateError: If it raised, hung, died or returned no plain data.
        """
        request = {
            "do": "call",
            "module": module,
            "function": function,
            "args": [plain.encode(item) for item in args],
            "kwargs": {key: plain.encode(item) for key, item in kwargs.items()},
        }
        return self._ask(request, timeout_s)

    def eval(
        self,
        code: str,
        *,
        imports: Sequence[str] = (),
        names: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Evaluate an expression there; its value crosses as plain data.

        Args:
            code: An expression over the imported modules and the names.
            imports: Modules to import, submitted ones or the library's.
            names: Plain data by name.
            timeout_s: As in `call`.

        Raises:
            CandidateError: As in `call`.
        """
        request = {
            "do": "eval",
            "code": code,
            "imports": list(imports),
            "names": {key: plain.encode(item) for key, item in (names or {}).items()},
        }
        return self._ask(request, timeout_s)

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        stdin: str | bytes = "",
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Done:
        """Run a program as the candidate's user.

        Args:
            argv: The first by name from the pristine path, or absolute.
            stdin: What it reads.
            cwd: Default: ``import_from`` in the submission, which is read-only.
            env: Added to the clean environment.
            timeout_s: Default: what is left of the test's time.
        """
        data = stdin.encode() if isinstance(stdin, str) else stdin
        with contextlib.ExitStack() as stack:
            given, out, err = (
                stack.enter_context(tempfile.TemporaryFile()) for _stream in range(3)
            )
            given.write(data)
            given.seek(0)
            process = subprocess.Popen(
                [os.fspath(item) for item in argv],
                stdin=given,
                stdout=out,
                stderr=err,
                cwd=cwd or self._home,
                env={**os.environ, **(env or {})},
            )
            status, late = _wait(process, self._left(timeout_s))
            streams = [_head(stream) for stream in (out, err)]
        return Done(status, streams[0], streams[1], timed_out=late)

    def path(self, path: str | Path) -> Path:
        """Return where an artifact is; a path in `tmp_path` stays as it is."""
        known = str(path).startswith((f"{confine.WORK}/", f"{self._root}/"))
        return Path(path) if known else self._root / str(path).lstrip("/")

    def exists(self, path: str | Path) -> bool:
        """Return whether an artifact, or a file in `tmp_path`, is there."""
        return os.path.lexists(self.path(path))

    def read(self, path: str | Path) -> bytes:
        """Return the bytes of a regular file; a link at its end is refused.

        Raises:
            CandidateError: If it is missing, no regular file, or too large.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(self.path(path), flags)
        except OSError as error:
            raise CandidateError(type(error).__name__, str(error)) from None
        with os.fdopen(fd, "rb") as file:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode) or info.st_size > READ_BYTES:
                raise CandidateError("NotAFile", str(path))
            return file.read(READ_BYTES)

    def read_text(self, path: str | Path, encoding: str = "utf-8") -> str:
        """Return the text of a file.

        Raises:
            CandidateError: As `read`, and if it is not in that encoding.
        """
        try:
            return self.read(path).decode(encoding)
        except UnicodeDecodeError as error:
            raise CandidateError("UnicodeDecodeError", str(error)) from None

    def read_json(self, path: str | Path) -> Any:
        """Return the value of a strict JSON file (finite numbers, no key twice).

        Raises:
            CandidateError: As `read`, and if it is no strict JSON.
        """
        try:
            return plain.loads(self.read(path))
        except ValueError as error:
            raise CandidateError("NotJson", str(error)) from None

    def end_test(self) -> None:
        """Kill every process that the test left behind."""
        if self._process is not None:
            self._process.close()
            self._process = None
        if self.used:
            self._tell({"do": "reap"})
            self.used = False

    def mark(self, code: str, detail: str) -> None:
        """Record a trace of tampering."""
        self.marks.append((code, self.test, detail))

    def _ask(self, request: dict[str, Any], timeout_s: float | None) -> Any:
        process = self._living()
        request["canary"] = process.canary
        deadline = time.monotonic() + self._left(timeout_s)
        try:
            wire.send(process.requests, request)
            answer = wire.receive(process.answers, deadline=deadline)
        except wire.Late:
            self._drop()
            raise CandidateError("Timeout", "it did not answer in time") from None
        except wire.Ended:
            raise self._ended(process) from None
        except ValueError as error:
            self.mark("TYPE_SPOOF", "its answer was forged")
            self._drop()
            raise CandidateError("Forged", str(error)) from None
        return self._value(answer, process)

    def _value(self, answer: Any, process: Process) -> Any:
        if process.canary in json.dumps(answer):
            self.mark("ANSWER_READ", "it returned a decoy from its caller's frame")
        with self._forgery():
            if answer["changed"]:
                changed = ", ".join(str(name) for name in answer["changed"][:4])
                self.mark("HARNESS_TAMPER", f"it replaced {changed}"[:200])
            if "error" in answer:
                raise self._failure(answer["error"])
            return plain.decode(answer["value"])

    def _failure(self, error: Any) -> CandidateError:
        if error["spoofs"]:
            self.mark("TYPE_SPOOF", str(error["message"])[:200])
        if error["ended"]:
            self.mark("EARLY_EXIT", "it raised SystemExit before it answered")
        return CandidateError(str(error["type"]), str(error["message"]))

    @contextlib.contextmanager
    def _forgery(self) -> Iterator[None]:
        try:
            yield
        except (plain.NotPlain, KeyError, TypeError, AttributeError) as error:
            self.mark("TYPE_SPOOF", "its answer was forged")
            raise CandidateError("Forged", str(error)) from None

    def _ended(self, process: Process) -> CandidateError:
        status = self._tell({"do": "status", "pid": process.pid})["status"]
        if status == 0:
            self.mark("EARLY_EXIT", "the process ended before it answered")
        self._drop()
        return CandidateError("Ended", f"the process ended with status {status}")

    def _living(self) -> Process:
        if self._process is None:
            self.used = True
            there, requests = os.pipe()
            answers, back = os.pipe()
            request = {"do": "fork", "import_from": str(self._home)}
            pid = self._tell(request, [there, back])["pid"]
            os.close(there)
            os.close(back)
            canary = f"expected-{secrets.token_hex(12)}"
            self._process = Process(pid, requests, answers, canary)
        return self._process

    def _drop(self) -> None:
        self.end_test()

    def _tell(self, request: dict[str, Any], fds: list[int] | None = None) -> Any:
        wire.send_with(self._zygote, json.dumps(request).encode(), fds or [])
        data, _fds = wire.receive_with(self._zygote)
        return json.loads(data)

    def _left(self, timeout_s: float | None) -> float:
        left = max(self.deadline - time.monotonic(), 0.0)
        return left if timeout_s is None else min(timeout_s, left)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[int, bool]:
    late = True
    try:
        late = not _ends(process.pid, timeout_s)
    finally:
        if late:
            process.kill()
        status = process.wait()
    if late:
        return TIMEOUT_STATUS, True
    return (128 - status if status < 0 else status), False


def _ends(pid: int, timeout_s: float) -> bool:
    """Wait for a child's end without polling its status."""
    handle = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        return bool(poller.poll(timeout_s * 1000))
    finally:
        os.close(handle)


def _head(stream: Any) -> bytes:
    stream.seek(0)
    return bytes(stream.read(OUTPUT_BYTES))


def confine_children(candidate: Candidate) -> None:
    """Make every program that this process starts run as the candidate's user.

    Args:
        candidate: Is told, so that it has something to kill at the test's end.
    """
    plain_init = subprocess.Popen.__init__

    def confined(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        options.update(
            user=confine.USER,
            group=confine.USER,
            extra_groups=[],
            umask=0o022,
            preexec_fn=confine.limit,
            start_new_session=True,
            close_fds=True,
        )
        candidate.used = True
        plain_init(self, args, *rest, **options)

    subprocess.Popen.__init__ = confined  # type: ignore[method-assign]  # on purpose
    os.system = lambda command: subprocess.call(command, shell=True)  # noqa: S602 (tests are ours)
