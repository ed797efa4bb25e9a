"""Stand-ins for the network: pinned names, recorded exchanges, counted attempts.

The sockets belong to the sandbox's network namespace, the threads that answer them
to this process: there is nothing inside that an agent could stop.
"""

from __future__ import annotations

import http.server
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
from typing_extensions import override

from rlvr_envs.confinement import EgressRule, Exchange
from rlvr_envs.records import Event
from rlvr_envs.sandbox.base import Capability, Sandbox

LOOPBACK = "127.0.0.1"
_TTL_S = 60


class Egress:
    """The stand-ins of one sandbox; `close` stops them, idempotently."""

    def __init__(self, sandbox: Sandbox, rule: EgressRule) -> None:
        self._sandbox = sandbox
        self._names = {**_exchange_hosts(rule.exchanges), **rule.dns}
        self._seen: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._dns: socket.socket | None = None
        self._servers: list[_ReplayServer] = []
        self._exchanges = rule.exchanges
        self._unrouted = 0
        capabilities = type(sandbox).capabilities()
        self._counts = Capability.EGRESS_EVENTS in capabilities
        self._listens = Capability.HARNESS_LISTENERS in capabilities

    def start(self) -> None:
        """Open the sockets and begin to answer.

        Raises:
            SandboxError: If the sandbox is gone.
        """
        if not self._listens:
            return
        self._dns = self._sandbox.listen(socket.SOCK_DGRAM, LOOPBACK, 53)
        _responder().add(self._dns, self)
        ports = sorted({_port(exchange) for exchange in self._exchanges})
        for port in ports:
            listener = self._sandbox.listen(socket.SOCK_STREAM, LOOPBACK, port)
            self._servers.append(_ReplayServer(listener, self._exchanges, self.note))

    def begin(self) -> None:
        """Count from here on; before the first call of an episode.

        Raises:
            SandboxError: If the sandbox is gone.
        """
        if self._counts:
            self._unrouted = self._sandbox.unrouted()

    def note(self, kind: str, detail: str) -> None:
        """Count something that an answering thread saw."""
        with self._lock:
            self._seen[kind, detail] += 1

    def collect(self) -> tuple[Event, ...]:
        """Return what happened since the last call, in a fixed order."""
        rows = self._noted()
        if self._counts:
            total = self._sandbox.unrouted()
            if total > self._unrouted:
                rows.append(Event("egress", total - self._unrouted, "no route"))
            self._unrouted = total
        return tuple(sorted(rows, key=lambda event: (event.kind, event.detail)))

    def _noted(self) -> list[Event]:
        with self._lock:
            if not self._seen:
                return []
            seen, self._seen = self._seen, Counter()
        return [Event(kind, count, what) for (kind, what), count in seen.items()]

    def close(self) -> None:
        """Stop answering."""
        if self._dns is not None:
            _responder().remove(self._dns)
            self._dns = None
        for server in self._servers:
            server.stop()
        self._servers = []

    def answer(self, query: bytes) -> bytes | None:
        """Return the reply to a DNS query; None where it cannot be read.

        Args:
            query: One datagram.
        """
        try:
            message = dns.message.from_wire(query)
            reply = dns.message.make_response(message)
        except (dns.exception.DNSException, ValueError):
            return None
        reply.flags |= dns.flags.RA
        for question in message.question:
            name = question.name.to_text(omit_final_dot=True).lower()
            self.note("dns", name)
            address = self._names.get(name)
            if address is None:
                reply.set_rcode(dns.rcode.NXDOMAIN)
            elif question.rdtype == dns.rdatatype.A:
                record = dns.rrset.from_text(question.name, _TTL_S, "IN", "A", address)
                reply.answer.append(record)
        return reply.to_wire()


class _Responder:
    """One thread of this process that answers every sandbox's DNS socket."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._wake, self._woken = socket.socketpair()
        self._woken.settimeout(0)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self.thread = threading.Thread(target=self._serve, daemon=True, name="dns")
        self.thread.start()

    def add(self, sock: socket.socket, egress: Egress) -> None:
        sock.settimeout(0)
        with self._lock:
            self._selector.register(sock, selectors.EVENT_READ, egress)
        self._wake.send(b"x")

    def remove(self, sock: socket.socket) -> None:
        with self._lock:
            self._selector.unregister(sock)
            sock.close()

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                self._attend(key)

    def _attend(self, key: selectors.SelectorKey) -> None:
        if key.data is None:
            self._woken.recv(4096)
            return
        with self._lock:
            try:
                query, sender = key.fileobj.recvfrom(4096)  # type: ignore[union-attr]
                reply = key.data.answer(query)
                if reply is not None:
                    key.fileobj.sendto(reply, sender)  # type: ignore[union-attr]
            except OSError:
                return


_shared: _Responder | None = None
_shared_lock = threading.Lock()


def _responder() -> _Responder:
    """Return the process's responder; a forked child starts its own."""
    global _shared
    with _shared_lock:
        if _shared is None or not _shared.thread.is_alive():
            _shared = _Responder()
        return _shared


class _ReplayServer:
    """Answers recorded HTTP exchanges on one port."""

    def __init__(
        self, listener: socket.socket, exchanges: tuple[Exchange, ...], note: Any
    ) -> None:
        handler = _handler(exchanges, note)
        self._server = http.server.ThreadingHTTPServer(
            (LOOPBACK, 0), handler, bind_and_activate=False
        )
        self._server.socket.close()
        self._server.socket = listener
        self._server.server_name, self._server.server_port = LOOPBACK, 0
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True, name="replay"
        )
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(
    exchanges: tuple[Exchange, ...], note: Any
) -> type[http.server.BaseHTTPRequestHandler]:
    table = {(item.method.upper(), item.url): item for item in exchanges}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10.0

        def _reply(self) -> None:
            length = min(int(self.headers.get("Content-Length") or 0), 1 << 20)
            self.rfile.read(length)
            url = f"http://{self.headers.get('Host', '')}{self.path}"
            note("http", f"{self.command} {url}")
            found = table.get((self.command, url))
            body = found.body if found else b"No exchange was recorded for this.\n"
            self.send_response_only(found.status if found else 502)
            for name, value in found.headers if found else ():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _reply  # noqa: N815

        @override
        def log_message(self, *_: Any) -> None:
            """Stay silent: what happened is an event."""

    return Handler


def _port(exchange: Exchange) -> int:
    return urlsplit(exchange.url).port or 80


def _exchange_hosts(exchanges: tuple[Exchange, ...]) -> Mapping[str, str]:
    hosts = {urlsplit(exchange.url).hostname or "" for exchange in exchanges}
    return dict.fromkeys((host for host in hosts if host), LOOPBACK)
