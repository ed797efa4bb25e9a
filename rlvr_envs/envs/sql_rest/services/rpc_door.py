"""Recorded calls of gRPC over its own wire, for a client that is somebody's own.

Services of ours ask `Recorded` and need no socket. One that brings a generated client
wants a channel: it finds the same recordings behind a socket in a folder that nobody
else can enter.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rlvr_envs.envs.sql_rest.services.recorded import Recorded, RpcError, Unrecorded
from rlvr_envs.errors import MissingRequirement, SandboxError

_UNRECORDED = "Nobody recorded this call."


class RpcDoor:
    """A server of gRPC that knows recordings alone; its threads start with it.

    Args:
        recorded: What answers, and where each call is noted.
        turn: Returns the turn that it is.

    Attributes:
        target: What a channel is opened to.

    Raises:
        MissingRequirement: If grpcio is not installed.
        SandboxError: If there is no socket to be had.
    """

    def __init__(self, recorded: Recorded, turn: Callable[[], int]) -> None:
        self._grpc = _grpc()
        self._recorded = recorded
        self._turn = turn
        self._folder = Path(tempfile.mkdtemp(prefix="rlvr-rpc-"))
        self.target = f"unix:{self._folder}/s"
        # One thread: calls of one request are answered in the order they came.
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="rpc-door")
        self._server = self._grpc.server(self._threads, handlers=(self,))
        try:
            self._server.add_insecure_port(self.target)
            self._server.start()
        except RuntimeError as error:
            self.close()
            raise SandboxError(f"No socket for gRPC: {error}") from error

    def service(self, details: Any) -> Any:
        """Return what handles a call; this makes the door a generic handler."""
        rpc = str(details.method)

        def answer(request: bytes, context: Any) -> bytes:
            try:
                return self._recorded.unary(rpc, request, turn=self._turn())
            except RpcError as error:
                code = self._grpc.StatusCode[error.code]
                context.abort(code, error.details)
            except Unrecorded:
                context.abort(self._grpc.StatusCode.UNIMPLEMENTED, _UNRECORDED)
            raise AssertionError("abort raises")

        return self._grpc.unary_unary_rpc_method_handler(answer)

    def close(self) -> None:
        """End server and threads, and remove the folder; idempotent."""
        self._server.stop(None).wait()
        self._threads.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)


def _grpc() -> Any:
    try:
        import grpc  # noqa: PLC0415 (few need it)
    except ImportError:
        raise MissingRequirement(
            "A channel of gRPC needs grpcio.", remedy="pip install 'rlvr-envs[grpc]'."
        ) from None
    return grpc
