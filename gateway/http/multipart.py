"""Parses multipart bodies part by part as they arrive, so that at most one message of the connection is in memory.

The parser receives the next message only when a reader needs it. So a slow database slows the client down.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.types import Receive

from portico.resolvers.waiting import waiting

from .sending import ClientTimeout

# The end of a part, and the end of the body.
_PART_END: Literal["part"] = "part"
_BODY_END: Literal["body"] = "body"
# While the rest of a body is discarded, the longest time to wait for more of it.
_DRAIN_STALL_SECONDS = 2.0


class MultipartError(Exception):
    """The body does not have the format of its content type. The text is for the client."""


class BodyCut(Exception):
    """The client disconnected before the end of the body."""


class BodyStalled(Exception):
    """The client has sent nothing for the longest time allowed."""


@dataclass(frozen=True, slots=True)
class Part:
    """The headers of one part of the body."""

    name: str
    is_file: bool


class MultipartBody:
    """The parts of a body, in order. Asking for the next part skips what is not read of the current one.

    `stall_seconds` is how long a reader waits for data of the client. `received` counts the bytes of the body so far.
    """

    def __init__(self, receive: Receive, content_type: str, stall_seconds: float) -> None:
        """Raises MultipartError if the content type names no valid boundary."""
        _, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if not boundary:
            raise MultipartError("The content type of the body must name a `boundary`.")
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
            raise MultipartError("The `boundary` in the content type is too long.") from None

    async def next_part(self) -> Part | None:
        """Returns the next part; None after the last. Raises MultipartError, BodyCut, BodyStalled."""
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
        """Returns more bytes of the current part; none at its end. Raises MultipartError, BodyCut, BodyStalled."""
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
        """Receives the rest of the body and discards it. Returns whether the body ended within the limit.

        Raises:   BodyCut, BodyStalled.
        """
        self._has_ended = True
        self._events.clear()
        self._stall_seconds = min(self._stall_seconds, _DRAIN_STALL_SECONDS)
        while self._more and self.received <= limit:
            await self._pull()
        return not self._more

    async def _pull(self) -> None:
        """Receives one message of the connection and parses it."""
        try:
            async with waiting(), ClientTimeout(self._stall_seconds):
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
            raise MultipartError(
                "The body is not valid multipart data with the boundary of its content type."
            ) from None

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
            raise MultipartError("Each part needs a `Content-Disposition` header with `form-data` and a `name`.")
        self._events.append(Part(name.decode("utf-8", "replace"), b"filename" in options))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._events.append(data[start:end])
