"""Idempotency keys: kept beside the data, by the transaction that did the work.

What undoes the write undoes the key with it. The agent's role cannot reach the table;
a trigger of its making runs with the service's rights and can, so that each row bears
a seal, and one that this service did not write counts for nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from typing import Any, cast

from rlvr_envs.envs.sql_rest.services.asgi import Answer
from rlvr_envs.sandbox.postgres.cluster import Connection

_FIND = "SELECT request, answer, seal FROM rlvr_service.answers WHERE key = %s"
_KEEP = """
INSERT INTO rlvr_service.answers (key, request, answer, seal) VALUES (%s, %s, %s, %s)
ON CONFLICT (key) DO UPDATE
SET request = excluded.request, answer = excluded.answer, seal = excluded.seal
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a key stands for.

    Attributes:
        request: A digest; equal requests have equal ones.
    """

    request: bytes
    answer: Answer


class Keys:
    """The keys of one episode.

    Args:
        connection: Of the service.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._secret = secrets.token_bytes(32)

    def find(self, key: str) -> Kept | None:
        """Return what a key stands for; ``None`` if nothing.

        Raises:
            psycopg.Error: If the table cannot be read.
        """
        name = digest(key)
        row = self._connection.execute(_FIND, [name]).fetchone()
        if row is None:
            return None
        request, answer, seal = cast("tuple[bytes, bytes, bytes]", row)
        if not hmac.compare_digest(seal, self._seal(name, request, answer)):
            return None
        status, headers, body = json.loads(answer)
        return Kept(request, Answer(status, headers, body))

    def keep(self, key: str, request: bytes, answer: Answer) -> None:
        """Keep an answer, in the transaction that is open.

        Raises:
            psycopg.Error: If that is not possible.
        """
        name = digest(key)
        told = [answer.status, dict(answer.headers), answer.body]
        data = json.dumps(told, separators=(",", ":")).encode()
        seal = self._seal(name, request, data)
        self._connection.execute(_KEEP, [name, request, data, seal])

    def _seal(self, *parts: bytes) -> bytes:
        whole = b"".join(len(part).to_bytes(8) + part for part in parts)
        return hmac.digest(self._secret, whole, "sha256")


def digest(value: Any) -> bytes:
    """Return a digest of plain JSON, of any characters."""
    return hashlib.sha256(json.dumps(value).encode()).digest()
