"""Multipart bodies, part by part as they come: of a file no more is held than one message of the connection.

Whoever reads waits for the connection, and the connection for whoever reads; so a slow database slows the client down.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Literal

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.types import Receive

# The end of a part, and of the last one.
_PART_END: Literal["part"] = "part"
_BODY_END: Literal["body"] = "body"


# Who is not going to read any more waits no longer than this for more to come.
_DRAIN_STALL_SECONDS = 2.0


class MultipartError(Exception):
    """The body is not what its content type says. The text is for the client."""


class BodyCut(Exception):
    """The client went away before the end of the body."""


class BodyStalled(Exception):
    """The client has sent nothing for as long as it may."""


@dataclass(frozen=True, slots=True)
class Part:
    """The head of one part of the body."""

    name: str
    is_file: bool


class MultipartBody:
    """The parts of a body, in order. What of a part is not read is passed over when the next one is asked for.

    `stall_seconds` is how long the client may send nothing while somebody waits for it.
    `received` counts the bytes of the body so far.
    """

    def __init__(self, receive: Receive, content_type: str, stall_seconds: float) -> None:
        """Raises MultipartError where the content type names no boundary that can be used."""
        _, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if not boundary:
            raise MultipartError("The content type names no boundary.")
        self._receive = receive
        self._stall_seconds = stall_seconds
        self._events: deque[Part | bytes | Literal["part", "body"]] = deque()
        self._header = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self._in_part = False
        self._has_ended = False
        self._more = True
        self.received = 0
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_part_end": lambda: self._events.append(_PART_END),
                    "on_end": lambda: self._events.append(_BODY_END),
                },
            )
        except FormParserError:
            raise MultipartError("The boundary is too long.") from None

    async def next_part(self) -> Part | None:
        """Returns the next part; None where there is none left. Raises MultipartError, BodyCut, BodyStalled."""
        while self._in_part:
            await self.read()
        event = await self._next()
        if event == _BODY_END:
            self._has_ended = True
            return None
        assert isinstance(event, Part)
        self._in_part = True
        return event

    async def read(self) -> bytes:
        """More of the present part; nothing at its end. Raises MultipartError, BodyCut, BodyStalled."""
        if not self._in_part:
            return b""
        event = await self._next()
        if isinstance(event, bytes):
            return event
        assert event == _PART_END
        self._in_part = False
        return b""

    async def _next(self) -> Part | bytes | Literal["part", "body"]:
        if self._has_ended:
            return _BODY_END
        while not self._events:
            if not self._more:
                raise MultipartError("The body ends before its last boundary.")
            await self._pull()
        return self._events.popleft()

    async def drain(self, limit: int) -> bool:
        """Takes in the rest of the body, and lets go of it. Returns whether it came to its end within the limit.

        Raises:   BodyCut, BodyStalled.
        """
        self._has_ended = True
        self._events.clear()
        self._stall_seconds = min(self._stall_seconds, _DRAIN_STALL_SECONDS)
        while self._more and self.received <= limit:
            await self._pull()
        return not self._more

    async def _pull(self) -> None:
        """Takes in one message of the connection."""
        try:
            async with asyncio.timeout(self._stall_seconds):
                message = await self._receive()
        except TimeoutError:
            raise BodyStalled from None
        if message["type"] == "http.disconnect":
            raise BodyCut
        body: bytes = message.get("body", b"")
        self.received += len(body)
        self._more = message.get("more_body", False)
        if self._has_ended:
            return
        try:
            self._parser.write(body)
        except FormParserError:
            raise MultipartError("The body is not in the form that its boundary asks for.") from None

    def _on_part_begin(self) -> None:
        self._disposition = b""

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        kind, options = parse_options_header(self._disposition)
        name = options.get(b"name")
        if kind != b"form-data" or name is None:
            raise MultipartError("A part has no name.")
        self._events.append(Part(name.decode("utf-8", "replace"), b"filename" in options))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._events.append(data[start:end])
