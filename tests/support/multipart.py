"""Builds multipart requests, which can be invalid, and bodies that arrive in pieces."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from starlette.types import Message, Receive

BOUNDARY = "a-boundary"
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
PREFLIGHT = {"graphql-require-preflight": "true"}


def part(name: str, value: bytes, *, filename: str | None = None, content_type: str | None = None) -> bytes:
    """Returns one part of a body, without the boundary."""
    disposition = f'form-data; name="{name}"' + ("" if filename is None else f'; filename="{filename}"')
    head = f"Content-Disposition: {disposition}\r\n" + (f"Content-Type: {content_type}\r\n" if content_type else "")
    return head.encode() + b"\r\n" + value


def body_of(parts: Sequence[bytes], *, is_ended: bool = True) -> bytes:
    separator = f"--{BOUNDARY}".encode()
    body = b"".join(separator + b"\r\n" + one + b"\r\n" for one in parts)
    return body + separator + (b"--\r\n" if is_ended else b"")


def upload_parts(query: str, variables: Mapping[str, Any], files: Mapping[str, tuple[list[str], bytes]]) -> list[bytes]:
    """Returns the parts of an operation with files. Each file has a name, and the paths of its variables."""
    operations = json.dumps({"query": query, "variables": dict(variables)}).encode()
    places = json.dumps({name: paths for name, (paths, _) in files.items()}).encode()
    return [
        part("operations", operations),
        part("map", places),
        *(part(name, data, filename="file", content_type="image/png") for name, (_, data) in files.items()),
    ]


def messages(*pieces: bytes, is_cut: bool = False) -> Receive:
    """Returns an ASGI `receive` that yields the pieces of a body. If `is_cut`, the client then disconnects."""
    sent: list[Message] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if is_cut:
        sent.append({"type": "http.disconnect"})
    elif sent:
        sent[-1]["more_body"] = False
    waiting = iter(sent)

    async def receive() -> Message:
        return next(waiting, {"type": "http.disconnect"})

    return receive


def pieces_of(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)] or [b""]


async def streamed(body: bytes, size: int) -> AsyncIterator[bytes]:
    """Yields a body for httpx in pieces."""
    for piece in pieces_of(body, size):
        yield piece
