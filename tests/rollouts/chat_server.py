"""A small server that speaks the chat-completions protocol on loopback.

It holds its clients to the protocol, as real servers do: a request names tools with
schemas, and every tool call of a reply is answered before the next request.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override

Reply = Mapping[str, Any]


def calls(*rows: tuple[str, Any], content: str = "") -> Reply:
    """Return a reply that calls tools; arguments are JSON text or a mapping."""
    tool_calls = [
        {
            "id": f"call-{number}-{name}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": arguments
                if isinstance(arguments, str)
                else json.dumps(arguments),
            },
        }
        for number, (name, arguments) in enumerate(rows)
    ]
    return {"role": "assistant", "content": content or None, "tool_calls": tool_calls}


def says(content: str) -> Reply:
    """Return a reply without a tool call."""
    return {"role": "assistant", "content": content}


@dataclass(frozen=True)
class Refusal:
    """An error status in place of a reply."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class ChatServer:
    """Gives its replies in order and keeps what it was asked."""

    replies: list[Reply | Refusal]
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, body: Mapping[str, Any], key: str) -> tuple[int, Any, Any]:
        self.keys.append(key)
        if not self.replies:
            return 400, {}, _error("no reply is left")
        if isinstance(self.replies[0], Refusal):
            refusal = self.replies.pop(0)
            assert isinstance(refusal, Refusal)
            return refusal.status, refusal.headers, _error("later")
        fault = protocol_fault(body)
        if fault:
            return 400, {}, _error(fault)
        self.requests.append(body)
        return 200, {}, _completion(body["model"], self.replies.pop(0))


def protocol_fault(body: Mapping[str, Any]) -> str:
    """Return what is wrong with a request; empty if nothing is."""
    for tool in body.get("tools") or [{}]:
        if tool.get("function", {}).get("parameters", {}).get("type") != "object":
            return "a tool needs a schema of an object"
    open_calls: set[str] = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"nobody called {message['tool_call_id']}"
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return f"unanswered tool calls: {sorted(open_calls)}"
        open_calls |= {call["id"] for call in message.get("tool_calls") or ()}
    return f"unanswered tool calls: {sorted(open_calls)}" if open_calls else ""


def _error(message: str) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error"}}


def _completion(model: str, message: Any) -> Any:
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


@contextmanager
def serving(*replies: Reply | Refusal) -> Iterator[ChatServer]:
    """Serve replies on a free loopback port."""
    chat = ChatServer(list(replies))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # the base class's name
            length = int(self.headers["Content-Length"])
            body = json.loads(self.rfile.read(length))
            assert self.path == "/v1/chat/completions"
            key = self.headers.get("Authorization", "")
            status, headers, answer = chat.answer(body, key)
            data = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    chat.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def roles(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the roles of a conversation."""
    return [message["role"] for message in messages]
