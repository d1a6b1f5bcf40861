"""Sends a request to an application in the same process.

The tests send some hundred thousand requests. A client of HTTP takes a sixth of the time of each, and another part
goes into an answer that it asks to be compressed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp


async def post(app: ASGIApp, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, Headers, bytes]:
    """Returns the status, the headers and the body of the response. Raises what the application raises."""
    given = {"host": "gateway", "accept": "*/*", "content-length": str(len(body)), **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "server": ("gateway", None),
        "client": ("127.0.0.1", 123),
        "root_path": "",
    }
    requests = [{"type": "http.request", "body": body, "more_body": False}]
    is_complete = asyncio.Event()
    messages: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        if requests:
            return requests.pop()
        await is_complete.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        messages.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            is_complete.set()

    await app(scope, receive, send)
    assert is_complete.is_set()
    start, *parts = messages
    return start["status"], Headers(raw=list(start.get("headers", ()))), b"".join(part["body"] for part in parts)
